"""Runs a program that downloads: shows what it does, keeps its output, tries again, and says what may be in the way.

Runs before anything is installed: standard library only.
"""

import os
import re
import selectors
import subprocess
import time
from pathlib import Path
from typing import IO, cast
from urllib.parse import unquote, urlsplit

from streaming.setup.progress import Progress

SILENT_FOR = 900.0
"""Seconds without a word after which a download counts as hung; building pyspark is silent for a minute or two."""

UNTRUSTED = re.compile(r"CERTIFICATE_VERIFY_FAILED|PKIX path|unable to find valid certification path")

REASONS = (
    (
        UNTRUSTED,
        "The certificate of the server, or of a proxy in the way, is not trusted: set PIP_CERT and SSL_CERT_FILE.",
    ),
    (
        re.compile(r"ProxyError|Cannot connect to proxy|Tunnel connection failed|Unable to tunnel|\b407\b"),
        "The proxy refused. HTTPS_PROXY is {proxy}; set it to http://user:password@host:port of the proxy to use.",
    ),
    (
        re.compile(r"DO NOT MATCH THE HASHES|HashMismatch"),
        "A file is not the one that was locked: the index (PIP_INDEX_URL is {index}) or a cache serves something else.",
    ),
    (re.compile(r"No space left on device"), "The disk is full: 2 GB are needed here and as much in pip's cache."),
    (
        re.compile(
            r"NewConnectionError|ConnectTimeout|ReadTimeout|ConnectionReset|RemoteDisconnected|Failed to establish|"
            r"name resolution|Name or service not known|nodename nor servname|Network is unreachable|"
            r"UnknownHostException|ConnectException|SocketTimeout|SocketException|Connection refused|"
            r"No matching distribution|Could not find a version|UNRESOLVED DEPENDENCIES|unresolved dependenc|"
            r"Server access error",
            re.IGNORECASE,
        ),
        """There is no way to the server: no network, a firewall, or a mirror that lacks the file.
  Behind a proxy set HTTPS_PROXY (now {proxy}).
  With mirrors of your own set PIP_INDEX_URL (now {index}) for Python packages
  and FLINKWATCH_IVY_SETTINGS (now {ivy}) to an ivysettings.xml for jars.""",
    ),
)


class FetchError(RuntimeError):
    """A download failed for good; the message says why and what to set."""

    def __init__(self, message: str, *, untrusted: bool) -> None:
        super().__init__(message)
        self.untrusted = untrusted


def fetch(what: str, command: list[str], *, show: Progress, log: Path, attempts: int) -> None:
    """Runs the command until it succeeds, at most so many times."""
    for attempt in range(1, attempts + 1):
        code, output = _watched(command, show=show, log=log)
        if code == 0:
            return
        if attempt < attempts:
            show("that failed; trying once more")
            time.sleep(2)
    tail = "\n".join(f"    {line}" for line in _worth_reading(output))
    raise FetchError(
        f"{what} could not be installed (exit {code}).\n{advice(output)}\nThe end of {log}:\n{tail}",
        untrusted=bool(UNTRUSTED.search(output)),
    )


def advice(output: str) -> str:
    """What the output of a failed download says about the cause, and what to set."""
    known = {
        "proxy": masked(_variable("HTTPS_PROXY")),
        "index": masked(_variable("PIP_INDEX_URL")),
        "ivy": _variable("FLINKWATCH_IVY_SETTINGS") or "not set",
    }
    found = [text.format(**known) for pattern, text in REASONS if pattern.search(output)]
    return found[0] if found else "The cause is not one that is known here."


def masked(url: str) -> str:
    """An address without its password."""
    return re.sub(r"(//[^/@:]*:)[^/@]*@", r"\1***@", url) if url else "not set"


def java_proxy_options() -> list[str]:
    """HTTPS_PROXY, HTTP_PROXY and NO_PROXY as a JVM wants to hear it."""
    options = []
    for scheme in ("https", "http"):
        proxy = _variable(f"{scheme.upper()}_PROXY")
        if not proxy:
            continue
        parts = urlsplit(proxy if "//" in proxy else f"//{proxy}")
        options += [f"-D{scheme}.proxyHost={parts.hostname}", f"-D{scheme}.proxyPort={parts.port or 80}"]
        if parts.username:
            # Ivy reads the user of the http proxy for both; a JVM refuses Basic to a https proxy unless told.
            options += [f"-Dhttp.proxyUser={unquote(parts.username)}", "-Djdk.http.auth.tunneling.disabledSchemes="]
            options += [f"-Dhttp.proxyPassword={unquote(parts.password or '')}"]
    direct = [host.strip() for host in _variable("NO_PROXY").split(",") if host.strip()]
    if options and direct:
        options += [f"-Dhttp.nonProxyHosts={'|'.join(f'*{h}' if h.startswith('.') else h for h in direct)}"]
    return options


def _watched(command: list[str], *, show: Progress, log: Path) -> tuple[int, str]:
    """Runs the command; its output goes to the log, its last line to `show`."""
    environment = {k: v for k, v in os.environ.items() if k not in {"PIP_USER", "PIP_TARGET", "PIP_PREFIX"}}
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUNBUFFERED": "1"}
    output, heard = "", time.monotonic()
    with (
        log.open("a") as journal,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as process,
        selectors.DefaultSelector() as selector,
    ):
        heard_from = cast("IO[bytes]", process.stdout)
        selector.register(heard_from, selectors.EVENT_READ)
        try:
            while True:
                if selector.select(timeout=1.0):
                    if not (piece := os.read(heard_from.fileno(), 65536)):
                        break
                    text, heard = piece.decode(errors="replace"), time.monotonic()
                    output += text
                    journal.write(text)
                elif time.monotonic() - heard > SILENT_FOR:
                    output += f"\nno word for {SILENT_FOR:.0f} s: ended\n"
                    process.kill()
                    break
                show(_last_line(output))
        except BaseException:
            process.kill()
            raise
    return process.returncode, output


def _last_line(output: str) -> str:
    lines = _worth_reading(output[-2000:])
    return lines[-1].strip() if lines else ""


def _worth_reading(output: str) -> list[str]:
    """The end of the output without Ivy's rows of dots."""
    lines = [line.rstrip()[:200] for line in output.splitlines() if line.strip() and not line.startswith("..")]
    return lines[-12:]


def _variable(name: str) -> str:
    return os.environ.get(name) or os.environ.get(name.lower()) or ""
