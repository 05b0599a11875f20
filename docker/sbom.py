"""Completes a CycloneDX document of Python packages with the jars, the Java runtime and the distribution's packages.

    python docker/sbom.py PYTHON.json FOLDER FILE

FOLDER has what docker/sbom.sh took out of the image: `lib`, `own` and dpkg's `status`.
"""

import json
import re
import sys
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

_NAME = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.+-]*)\.jar")


def main(document: Path, folder: Path, file: Path) -> None:
    bill: dict[str, Any] = json.loads(document.read_text())
    python = len(bill["components"])
    jars = [component(jar) for jar in sorted(folder.rglob("*.jar"))]
    system = list(debian(folder / "status"))
    java = list(runtime(folder / "own"))
    bill["components"] += jars + system + java
    file.write_text(json.dumps(bill, indent=1))
    counts = f"{python} Python packages, {len(jars)} jars, {len(system)} packages of the distribution, {len(java)} Java"
    sys.stdout.write(f"  ok: {file}: {counts}\n")
    if min(python, len(jars), len(system)) == 0:
        sys.exit("docker/sbom.py: a kind of component is missing")


def component(jar: Path) -> dict[str, Any]:
    """A jar, by its Maven coordinates if it contains them."""
    group, found = "", _NAME.fullmatch(jar.name)
    name, version = (found["name"], found["version"]) if found else (jar.stem, "")
    with zipfile.ZipFile(jar) as archive:
        own = [n for n in archive.namelist() if n.startswith("META-INF/maven/") and n.endswith("/pom.properties")]
        # A jar that contains others has their coordinates too.
        own = [n for n in own if n.split("/")[3] == name] or (own if len(own) == 1 else [])
        if own:
            properties = dict(re.findall(r"^(\w+)=(\S*)", archive.read(own[0]).decode(), re.MULTILINE))
            group, name, version = (properties[key] for key in ("groupId", "artifactId", "version"))
    purl = f"pkg:maven/{group}/{name}@{version}" if group else f"pkg:generic/{name}@{version}"
    digest = {"alg": "SHA-256", "content": sha256(jar.read_bytes()).hexdigest()}
    reference = f"{purl}#{jar.parent.name}/{jar.name}"
    found_as = {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": purl}
    return found_as | ({"group": group} if group else {}) | {"hashes": [digest]}


def debian(status: Path) -> Iterator[dict[str, Any]]:
    """The packages that dpkg lists as installed."""
    for entry in status.read_text().split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", entry, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            name, version = fields["Package"], fields["Version"]
            purl = f"pkg:deb/debian/{name}@{version}?arch={fields['Architecture']}"
            yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def runtime(own: Path) -> Iterator[dict[str, Any]]:
    """The Java of requirements-java.lock, if the base image has none."""
    for release in own.glob("java/release"):
        found = re.search(r'^JAVA_RUNTIME_VERSION="([^"]+)"', release.read_text(), re.MULTILINE)
        version = found[1] if found else "unknown"
        purl = f"pkg:generic/openjdk@{version}"
        yield {"type": "platform", "bom-ref": purl, "name": "openjdk", "version": version, "purl": purl}


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
