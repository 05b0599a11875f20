#!/bin/sh
# Runs the pod of overlays/single with podman against the embedded broker: k8s/test.sh [IMAGE]
# Without podman or the image of docker/test.sh it prints a note and succeeds. bin/test --all runs it.
set -eu
cd "$(dirname "$0")/.."
image=${1:-localhost/flinkwatch}
# The engine that docker/test.sh has set up.
engine=${FLINKWATCH_OCI:-$PWD/.flinkwatch/oci}
if [ -f "$engine/containers.conf" ]; then
    export CONTAINERS_CONF="$engine/containers.conf" CONTAINERS_STORAGE_CONF="$engine/storage.conf"
fi
if ! command -v podman >/dev/null; then
    echo "k8s/test.sh: the pod was not run: podman is not installed"
elif ! podman image exists "$image"; then
    echo "k8s/test.sh: the pod was not run: image $image is missing, build it with docker/test.sh"
else
    FLINKWATCH_POD_IMAGE=$image exec "${PYTHON:-.venv/bin/python}" -m pytest tests/e2e/test_pod.py --durations=0
fi
