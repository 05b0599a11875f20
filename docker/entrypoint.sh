#!/bin/bash
# The container's command: flinkwatch, or the roles that Spark on Kubernetes expects of its image.
set -euo pipefail

export SPARK_HOME=${SPARK_HOME:-/opt/flinkwatch/.venv/spark}
# The image's own Java; without one, the base image has Java on PATH.
own=/opt/flinkwatch/.flinkwatch/java
if [ -z "${JAVA_HOME:-}" ] && [ -x "$own/bin/java" ]; then
    export JAVA_HOME=$own
fi

case "${1:-run}" in
driver)
    # spark-submit in cluster mode, and the operators that use it.
    shift
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    options=()
    for name in "${!SPARK_JAVA_OPT_@}"; do
        options+=("${!name}")
    done
    exec "${JAVA_HOME:+$JAVA_HOME/bin/}java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CLASSPATH:-}:$SPARK_HOME/conf:$SPARK_HOME/jars/*:$PWD" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec flinkwatch "$@"
    ;;
esac
