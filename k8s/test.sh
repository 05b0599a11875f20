#!/bin/sh
# Runs the pod of overlays/single for real, against the embedded broker: k8s/test.sh [IMAGE]
# Needs podman and the image that docker/test.sh makes; without them it says so and ends well.
set -eu
CDPATH= cd "$(dirname "$0")/.."
image=${1:-localhost/flinkwatch:dev}
if ! command -v podman >/dev/null; then
    echo "k8s/test.sh: skipped: podman is not installed"
elif ! podman image exists "$image"; then
    echo "k8s/test.sh: skipped: there is no image $image; docker/test.sh makes it"
else
    FLINKWATCH_POD_IMAGE=$image exec .venv/bin/python -m pytest tests/e2e/test_pod.py --durations=0
fi
