"""Host names, which YARN, Flink and log shippers write in different ways."""


def short(host: str) -> str:
    """A host without port and domain, for comparisons. An IP address loses only its port.

    >>> short("HDFS05-dev.example.com:45454"), short("10.21.33.15:16897")
    ('hdfs05-dev', '10.21.33.15')
    """
    name = host.lower()
    if name.count(":") == 1:
        name = name.partition(":")[0]
    return name if name.replace(".", "").isdigit() else name.partition(".")[0]
