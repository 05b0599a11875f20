"""The shippers: where each is found, with which configuration of docs/shippers.md, and how it is started."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[2]
PAGE = PROJECT / "docs" / "shippers.md"
BUILT = PROJECT / ".flinkwatch" / "shippers"
HOST = "flink-1"

_BLOCK = re.compile(r"^```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def configuration(heading: str, number: int = 0) -> str:
    """A block of docs/shippers.md: the `number`-th below a heading."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n### {heading}\n")[1].split("\n### ")[0]
    return _BLOCK.findall(section)[number]


class Shipper(NamedTuple):
    """A program, its heading in docs/shippers.md and the number of its block there.

    `command` makes the command line from the program, its configuration file and a folder for its own data.
    """

    name: str
    heading: str
    program: str
    suffix: str
    command: Callable[[str, Path, Path], list[str]]
    block: int = 0

    def path(self) -> str | None:
        """Where the program is, if it is there."""
        built = BUILT / self.program
        return str(built) if built.is_file() else shutil.which(self.program, path=f"{os.environ['PATH']}:/usr/sbin")

    def start(self, folder: Path, replaced: dict[str, str]) -> subprocess.Popen[bytes]:
        """Starts it with its configuration, in which the names of the page are replaced."""
        text = configuration(self.heading, self.block)
        for name, real in replaced.items():
            text = text.replace(name, real)
        own = folder / self.name
        own.mkdir()
        file = own / f"shipper{self.suffix}"
        file.write_text(text, encoding="utf-8")
        program = self.path()
        assert program is not None
        with (own / "log").open("wb") as log:
            return subprocess.Popen(
                self.command(program, file, own),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=own,
                env={**os.environ, "HOSTNAME": HOST},
            )


def _filebeat(program: str, file: Path, own: Path) -> list[str]:
    data = ("--path.data", str(own / "data"), "--path.logs", str(own / "logs"), "--path.home", str(own))
    return [program, "-e", "--strict.perms=false", "-c", str(file), *data]


def _fluent_bit(program: str, file: Path, _own: Path) -> list[str]:
    return [program, "-c", str(file)]


def _rsyslog(program: str, file: Path, own: Path) -> list[str]:
    # Where it keeps how far it has read, which its package sets otherwise.
    file.write_text(f'global(workDirectory="{own}")\n' + file.read_text(encoding="utf-8"), encoding="utf-8")
    return [program, "-n", "-f", str(file), "-i", str(own / "pid")]


def _syslog_ng(program: str, file: Path, own: Path) -> list[str]:
    places = ("-R", str(own / "persist"), "-c", str(own / "control"), "-p", str(own / "pid"))
    return [program, "--foreground", "--no-caps", "-f", str(file), *places]


def _with_config(program: str, file: Path, _own: Path) -> list[str]:
    return [program, "--config", str(file)]


LOG_SHIPPERS = (
    Shipper("filebeat", "Filebeat", "filebeat", ".yml", _filebeat),
    Shipper("fluent-bit", "Fluent Bit", "fluent-bit", ".yaml", _fluent_bit),
    Shipper("rsyslog", "rsyslog", "rsyslogd", ".conf", _rsyslog),
    Shipper("syslog-ng", "syslog-ng", "syslog-ng", ".conf", _syslog_ng),
    Shipper("otelcol", "OpenTelemetry Collector", "otelcol", ".yaml", _with_config),
)

METRIC_SHIPPERS = (
    Shipper("telegraf", "Telegraf", "telegraf", ".conf", _with_config),
    Shipper("otelcol-metrics", "OpenTelemetry Collector, metrics", "otelcol", ".yaml", _with_config),
)
