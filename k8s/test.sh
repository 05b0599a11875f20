#!/bin/sh
# Runs the pod of overlays/single for real, against the embedded broker: k8s/test.sh [IMAGE]
# Needs podman and the image of docker/test.sh; without them it prints so and exits 0. bin/test --all runs it.
set -eu
cd "$(dirname "$0")/.."
image=${1:-localhost/flinkwatch}
# The podman storage that docker/test.sh has set up.
engine=${FLINKWATCH_OCI:-$PWD/.flinkwatch/oci}
if [ -f "$engine/containers.conf" ]; then
    export CONTAINERS_CONF="$engine/containers.conf" CONTAINERS_STORAGE_CONF="$engine/storage.conf"
fi
if ! command -v podman >/dev/null; then
    echo "k8s/test.sh: the pod was not run: there is no podman"
elif ! podman image exists "$image"; then
    echo "k8s/test.sh: the pod was not run: there is no image $image, which docker/test.sh makes"
else
    FLINKWATCH_POD_IMAGE=$image exec "${PYTHON:-.venv/bin/python}" -m pytest tests/e2e/test_pod.py --durations=0
fi
