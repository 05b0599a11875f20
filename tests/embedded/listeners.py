"""Where the embedded broker listens, and the rest of its configuration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PLAIN = "PLAINTEXT"

SERVER_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
# Tests end members of a group by kill -9, and the others wait this long for them.
group.min.session.timeout.ms=1000
# After a crash the broker waits this long for its own ghost to go.
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
log.cleaner.dedupe.buffer.size=16777216
num.network.threads={network_threads}
num.io.threads=4
"""


@dataclass(frozen=True)
class Listener:
    """One listener beside the plain one; `properties` are Kafka's, without `listener.name.<name>.` before them."""

    name: str
    protocol: str
    properties: Mapping[str, str] = field(default_factory=dict)


def server_properties(listeners: Sequence[Listener], ports: Mapping[str, int], controller_port: int, data: Path) -> str:
    """The file server.properties; `ports` is by name of the listener."""
    protocols = {PLAIN: "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **{each.name: each.protocol for each in listeners}}
    addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    lines = [
        f"listeners={addresses},CONTROLLER://127.0.0.1:{controller_port}",
        f"advertised.listeners={addresses}",
        f"inter.broker.listener.name={PLAIN}",
        "listener.security.protocol.map=" + ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        *(
            f"listener.name.{each.name.lower()}.{key}={text}"
            for each in listeners
            for key, text in each.properties.items()
        ),
    ]
    # Each listener has network threads of its own.
    threads = 1 if listeners else 2
    text = SERVER_PROPERTIES.format(controller_port=controller_port, data=data, network_threads=threads)
    return text + "\n".join(lines) + "\n"
