"""Fetches the jars that conf/jars/ivy.xml names into .flinkwatch/jars: the last step of bin/setup.

Ivy does it, which pyspark brings along. Standard library only, so that the image can be built before the project is.
"""

import fcntl
import hashlib
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from streaming.setup.jars import JARS
from streaming.setup.java import find_java

ROOT = Path(__file__).resolve().parents[2]
IVY = ROOT / "conf" / "jars" / "ivy.xml"
CHECKSUMS = ROOT / "conf" / "jars" / "jars.sha256"

_BUNDLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class FetchError(RuntimeError):
    """The jars cannot be had; the message says what and what to do."""


def main(arguments: list[str]) -> int:
    """Fetch the jars and compare them with their checksums, or write these with `record-jars`; the exit status."""
    try:
        with _retrieved() as folder:
            if arguments == ["record-jars"]:
                CHECKSUMS.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(hashes(folder).items())))
            install(folder)
    except (FetchError, OSError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def install(folder: Path) -> None:
    """Put the jars of a folder in the place of the old ones. Raises FetchError if one is not that of its checksum."""
    lines = (line.split("  ", 1) for line in CHECKSUMS.read_text().splitlines())
    expected, found = {name: digest for digest, name in lines}, hashes(folder)
    wrong = sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name))
    if wrong:
        raise FetchError(
            f"The jars are not those of {CHECKSUMS}: {', '.join(wrong)}. A mirror may serve other files. "
            "After a change in ivy.xml: bin/setup record-jars."
        )
    shutil.rmtree(JARS, ignore_errors=True)
    folder.rename(JARS)


def hashes(folder: Path) -> dict[str, str]:
    jars = folder.rglob("*.jar")
    return {str(jar.relative_to(folder)): hashlib.sha256(jar.read_bytes()).hexdigest() for jar in jars}


def proxy_options() -> list[str]:
    """Options of a JVM for HTTPS_PROXY, HTTP_PROXY and NO_PROXY, which it does not read."""
    options = []
    for scheme in ("https", "http"):
        proxy = _variable(f"{scheme.upper()}_PROXY")
        if not proxy:
            continue
        parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
        options += [f"-D{scheme}.proxyHost={parts.hostname}", f"-D{scheme}.proxyPort={parts.port or 80}"]
        if parts.username:
            # Ivy reads the user of the http proxy for both; a JVM sends Basic to an https proxy only if configured.
            options += [f"-Dhttp.proxyUser={unquote(parts.username)}", "-Djdk.http.auth.tunneling.disabledSchemes="]
            options += [f"-Dhttp.proxyPassword={unquote(parts.password or '')}"]
    direct = [host.strip() for host in _variable("NO_PROXY").split(",") if host.strip()]
    if options and direct:
        options += [f"-Dhttp.nonProxyHosts={'|'.join(f'*{h}' if h.startswith('.') else h for h in direct)}"]
    return options


def truststore_options(home: Path, folder: Path) -> list[str]:
    """Options of a JVM to trust also the authorities of this machine that the Java in `home` lacks; none if it has all.

    They are those of the bundles that the environment names, else those of the system. `folder` gets the store.
    """
    keytool, own = (next(home.glob(f"**/{name}"), None) for name in ("bin/keytool", "lib/security/cacerts"))
    if keytool is None or own is None:
        return []
    store = shutil.copyfile(own, folder / "cacerts")
    # The password that every JDK gives this store.
    command = [str(keytool), "-keystore", str(store), "-storepass", "changeit"]
    listed = subprocess.run([*command, "-list"], capture_output=True, text=True, check=True).stdout.replace(":", "")
    missing = [c for c in certificates() if hashlib.sha256(c).hexdigest().upper() not in listed]
    for number, certificate in enumerate(missing):
        added = [*command, "-importcert", "-noprompt", "-alias", f"machine-{number}"]
        subprocess.run(added, input=certificate, capture_output=True, check=True)
    return [f"-Djavax.net.ssl.trustStore={store}"] if missing else []


def certificates() -> list[bytes]:
    """The authorities of the bundles that the environment names, else of the system's, in DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    named = [path for variable in _BUNDLES if (path := _variable(variable)) and Path(path).is_file()]
    for bundle in named:
        context.load_verify_locations(bundle)
    if not named:
        context.load_default_certs()
    return context.get_ca_certs(binary_form=True)


@contextmanager
def _retrieved() -> Iterator[Path]:
    """A new folder with the jars, one sub-folder for each process that loads them."""
    ivy = next(Path(sys.prefix).glob("lib/python3*/site-packages/pyspark/jars/ivy-*.jar"))
    settings = os.environ.get("FLINKWATCH_IVY_SETTINGS")
    if settings and not Path(settings).is_file():
        raise FetchError(f"FLINKWATCH_IVY_SETTINGS: there is no file {settings}.")
    cache = _cache()
    with tempfile.TemporaryDirectory(dir=JARS.parent, prefix="jars-") as temporary, (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder, home = Path(temporary) / "new", find_java()
        java = [str(home / "bin" / "java"), "-Xmx256m", *proxy_options()]
        retrieve = ["-jar", str(ivy), "-warn", *(["-settings", settings] if settings else []), "-ivy", str(IVY)]
        retrieve += ["-cache", str(cache), "-confs", "spark", "broker", "-types", "jar", "bundle"]
        retrieve += ["-retrieve", f"{folder}/[conf]/[artifact]-[revision](-[classifier]).[ext]"]
        failure = _failure_of(java + retrieve)
        # A Java that was unpacked by hand, and ours, trust only what they brought along.
        if failure and (trusting := truststore_options(home, Path(temporary))):
            failure = _failure_of([*java, *trusting, *retrieve])
        if failure:
            raise FetchError(failure)
        yield folder


def _failure_of(command: list[str]) -> str:
    """The end of what Ivy prints, without its rows of dots; empty if it succeeds."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = [line[:200] for line in done.stdout.splitlines() if line.strip() and not line.startswith(".")]
    return "\n".join(lines[-12:]) or f"Ivy ended with status {done.returncode}" if done.returncode else ""


def _cache() -> Path:
    """The user's cache, so that a second checkout downloads nothing; this checkout's where that cannot be written."""
    for cache in (Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "flinkwatch" / "ivy", JARS.parent / "ivy"):
        try:
            found = cache.expanduser()
            found.mkdir(parents=True, exist_ok=True)
            (found / "lock").touch()
        except (OSError, RuntimeError):
            continue
        return found
    raise FetchError(f"{JARS.parent} is not writable.")


def _variable(name: str) -> str:
    return os.environ.get(name) or os.environ.get(name.lower()) or ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
