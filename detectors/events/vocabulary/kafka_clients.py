"""Log lines of Kafka's own clients, inside the processes of Flink."""

from detectors.events.vocabulary.pattern import LogPattern

_CLIENT = r"\[(?P<client>[^\]]+)\] "

PATTERNS: tuple[LogPattern, ...] = (
    # "Broker may not be available." until Kafka 3.6, then "Node may not be available.". Node -1 is the first of
    # bootstrap.servers. WARN in all versions.
    LogPattern(
        "broker_not_reached",
        _CLIENT
        + r"Connection to node (?P<node>-?[0-9]{1,10})(?: \((?P<address>[^)\s]+)\))? could not be established\.",
        anchor="could not be established.",
    ),
    LogPattern(
        "broker_not_reached",
        _CLIENT + r"Disconnecting from node (?P<node>-?[0-9]{1,10}) due to socket connection setup timeout\.",
        anchor="due to socket connection setup timeout",
    ),
)
