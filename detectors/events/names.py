"""Names of hosts, containers and processes, which Flink, YARN, log shippers and metrics write in different ways."""

import re
from functools import lru_cache

CONTAINER = r"container_(?:e\d+_)?\d+_\d+_\d+_\d+"
"""The ID of a container of YARN, which is also the ID of the TaskManager in it."""

OF_JOBMANAGER = "jm|"
"""How the name of a JobManager begins where processes of both kinds have names; its host follows."""

_find_container = re.compile(CONTAINER).search


def short(host: str) -> str:
    """A host without port and domain, for comparisons. An IP address loses only its port.

    >>> short("HDFS05-dev.example.com:45454"), short("10.21.33.15:16897")
    ('hdfs05-dev', '10.21.33.15')
    """
    name = host.lower()
    if name.count(":") == 1:
        name = name.partition(":")[0]
    return name if name.replace(".", "").isdigit() else name.partition(".")[0]


def container_in(text: str) -> str:
    """The ID of the YARN container that a text names, such as the path of its log; empty if there is none."""
    found = _find_container(text)
    return found[0] if found else ""


@lru_cache(maxsize=16_384)
def filtered(value: str) -> str:
    """An ID in the form that Prometheus labels have. IDs from logs and metrics must be compared in this form."""
    return re.sub(r"[^a-zA-Z0-9:_]", "_", value)
