"""Fleet and Cluster on what was recorded: a real Prometheus answers every query of theirs with data."""

from collections.abc import Iterator

import msgspec
import pytest

from tests.dashboard_queries import questions, read
from tests.prometheus_server import Prometheus, available, import_samples
from tests.recorded import records
from tests.recorded_metrics import SCRAPE_S, Played, write_samples

pytestmark = [
    pytest.mark.skipif(not available(), reason="Prometheus is not installed: apt-get install prometheus"),
    pytest.mark.timeout(120),
]

END = 1_800_000_000
# Together they have every reading: a leak, late acknowledgements with growing checkpoints, a slow sink.
SCENARIOS = {"post-mortem-001": "post-mortem-001", "rtc-yarn": "post-mortem-002"}
AHEAD_MS = 45_000


class Asked:
    """A Prometheus that holds the recordings, from `first` to `END`, epoch s."""

    def __init__(self, server: Prometheus, first: int) -> None:
        self.server = server
        self.first = first

    def data(self, dashboard: str, cluster: str) -> dict[str, bool]:
        """Whether each query of a dashboard has any."""
        found = {}
        for one in questions(read(dashboard), cluster):
            if one.label:
                answer = bool(self.server.label_values(one.expr, one.label, self.first, END))
            else:
                answer = bool(self.server.over(one.expr, self.first, END, 4 * SCRAPE_S))
            found[one.where] = answer
        return found


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    folder = tmp_path_factory.mktemp("prometheus")
    played = [Played(cluster, records(name)) for cluster, name in SCENARIOS.items()]
    # As if Kafka's clock were right and that of the hosts ahead.
    slow = [msgspec.structs.replace(r, timestamp=r.timestamp - AHEAD_MS) for r in records("backpressure-slow-sink")]
    played.append(Played("1.20.5-slow-sink", tuple(slow)))
    first = write_samples(played, END, folder / "samples.txt")
    import_samples(folder / "samples.txt", folder)
    with Prometheus(folder, lookback=f"{2.5 * SCRAPE_S:.0f}s") as server:
        yield Asked(server, first)


def test_every_query_about_the_fleet_has_data(asked: Asked) -> None:
    assert [where for where, has in asked.data("fleet", "").items() if not has] == []


def test_every_query_about_a_cluster_has_data_for_one_of_them(asked: Asked) -> None:
    """No cluster has every trouble at once."""
    by_cluster = [asked.data("cluster", cluster) for cluster in (*SCENARIOS, "1.20.5-slow-sink")]
    assert [where for where in by_cluster[0] if not any(found[where] for found in by_cluster)] == []


def test_a_cluster_that_is_not_there_has_none(asked: Asked) -> None:
    """The proof that the answers above are about the cluster that was chosen."""
    found = asked.data("cluster", "no-such-cluster")
    assert [where for where, has in found.items() if has] == ["$cluster"]
