#!/bin/bash
# The software bill of materials of an image, in CycloneDX: docker/sbom.sh ENGINE IMAGE FILE
# Python packages, jars, Java and the distribution's packages; then pip-audit, if its service answers.
set -euo pipefail
cd "$(dirname "$0")/.."
engine=$1 image=$2 file=$3
folder=$(mktemp -d)
container=$("$engine" create "$image")
trap '"$engine" rm "$container" >/dev/null; rm -rf "$folder"' EXIT

tools=${TOOLS:-$folder/tools/bin}
if [ ! -x "$tools/cyclonedx-py" ]; then
    python3 -m venv "$folder/tools"
    "$tools/pip" install --quiet --disable-pip-version-check --requirement docker/tools.txt
fi
"$engine" cp "$container:/opt/flinkwatch/.venv/lib/." "$folder/lib"
"$engine" cp "$container:/opt/flinkwatch/.flinkwatch/." "$folder/own"
"$engine" cp "$container:/var/lib/dpkg/status" "$folder/status"
packages=$(echo "$folder"/lib/python3*/site-packages)
# An interpreter that sees the image's packages and none of this machine.
printf '#!/bin/sh\nPYTHONPATH=%s exec %s -S "$@"\n' "$packages" "$(command -v python3)" >"$folder/python"
chmod 755 "$folder/python"
"$tools/cyclonedx-py" environment --pyproject pyproject.toml --output-file "$folder/python.json" "$folder/python"
"$tools/python" docker/sbom.py "$folder/python.json" "$folder" "$file"

# The lock lists the packages of the image, minus docker/left-out.txt. A package that could not be checked is a failure.
if "$tools/pip-audit" --strict --requirement requirements-runtime.lock --disable-pip --require-hashes \
    --progress-spinner off >"$folder/audit" 2>&1; then
    echo "  ok: pip-audit: $(tail -n 1 "$folder/audit")"
elif grep -q -E '^Found [0-9]+ known vulnerabilit' "$folder/audit"; then
    cat "$folder/audit"
    exit 1
else
    echo "  pip-audit was not answered here: $(tail -n 1 "$folder/audit" | cut -c1-150)"
fi
