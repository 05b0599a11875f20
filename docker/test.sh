#!/bin/bash
# Lints this folder, builds the image on plain Debian, prints the size of its layers, and tests it with docker/check.py.
# bin/test --all runs it. Images and layers stay in .flinkwatch/oci (or FLINKWATCH_OCI) for the next run.
set -euo pipefail
cd "$(dirname "$0")/.."
work=${FLINKWATCH_OCI:-$PWD/.flinkwatch/oci}
image=localhost/flinkwatch
at_most_mb=900
mkdir -p "$work"

tools=$work/tools/bin
if ! cmp -s docker/tools.txt "$work/tools/tools.txt"; then
    rm -rf "$work/tools"
    python3 -m venv "$work/tools"
    "$tools/pip" install --quiet --disable-pip-version-check --requirement docker/tools.txt
    cp docker/tools.txt "$work/tools/"
fi
"$tools/hadolint" docker/Dockerfile
"$tools/shellcheck" docker/*.sh
"$tools/docker-compose" --file docker/compose.yaml --profile demo config --quiet
echo "  ok: hadolint, shellcheck, compose.yaml"

# A storage of its own, so that the user's containers are not touched. The host's network, to reach the embedded broker.
cat >"$work/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$work/graph"
runroot = "$work/run"
END
runtime=$(command -v runc || command -v crun || true)
cat >"$work/containers.conf" <<END
[containers]
netns = "host"
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "$(basename "${runtime:-runc}")"
cgroup_manager = "cgroupfs"
events_logger = "file"
END
export CONTAINERS_CONF=$work/containers.conf CONTAINERS_STORAGE_CONF=$work/storage.conf
skip() {
    echo "docker/test.sh: the image was not built: $1"
    exit 0
}
command -v podman >"$work/log" || skip "podman is not installed (Debian: apt-get install podman buildah runc debootstrap, and catatonit for k8s/test.sh)"
podman info >"$work/log" 2>&1 || skip "podman does not work here: $(tail -n 1 "$work/log")"

base=localhost/debian:bookworm-slim
if ! podman image exists "$base"; then
    if timeout 60 podman pull --quiet docker.io/library/debian:bookworm-slim >"$work/log" 2>&1; then
        podman tag docker.io/library/debian:bookworm-slim "$base"
    elif command -v debootstrap >/dev/null && [ "$(id -u)" = 0 ]; then
        echo "  no registry can be reached, building the base image from Debian's packages"
        docker/base.sh >"$work/log" 2>&1 || skip "no base image: $(tail -n 1 "$work/log")"
    else
        skip "no registry can be reached, and the base image cannot be built without root and debootstrap"
    fi
fi

# The certificates that pip trusts on this machine, mounted only during the build.
options=()
for bundle in "${PIP_CERT:-}" "${SSL_CERT_FILE:-}"; do
    if [ -f "$bundle" ]; then
        printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$work/pip.conf"
        options+=(--volume "$bundle:/etc/ssl/certs/ca-certificates.crt:ro" --volume "$work/pip.conf:/etc/pip.conf:ro")
        break
    fi
done
[ -z "${PIP_INDEX_URL:-}" ] || printf '[global]\nindex-url = %s\n' "$PIP_INDEX_URL" >>"$work/pip.conf"
echo "  building $image on $base; $work/build.log has the details"
nice -n 10 podman build --format docker --layers --network host --file docker/Dockerfile --tag "$image" "${options[@]}" \
    --build-arg "BASE=$base" --build-arg "REVISION=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" . \
    >"$work/build.log" 2>&1 || { tail -n 30 "$work/build.log"; exit 1; }
if grep "finds nothing" "$work/build.log"; then
    exit 1
fi

echo "  layers:"
podman history --format '    {{.Size}}	{{.CreatedBy}}' "$image" | grep -v '^    0 B' | cut -c1-120
size=$(($(podman image inspect --format '{{.Size}}' "$image") / 1000000))
echo "  image: $size MB, at most $at_most_mb"
[ "$size" -le "$at_most_mb" ]

PYTHONPATH=$PWD "${PYTHON:-.venv/bin/python}" docker/check.py podman "$image"
TOOLS=$tools docker/sbom.sh podman "$image" "$work/sbom.json"
podman image prune --force >/dev/null
