"""What Prometheus sees of reloads."""

from prometheus_client import CollectorRegistry

from sinks.prometheus.reload_metrics import ReloadMetrics


def test_a_refused_file_is_0_and_keeps_the_time_of_the_last_good_one() -> None:
    times, registry = iter([100.0, 200.0]), CollectorRegistry()
    reloads = ReloadMetrics(lambda: next(times))
    registry.register(reloads)
    names = ("successful", "success_timestamp_seconds")
    seen = []
    for successful in (True, False, True):
        if seen:
            reloads.reloaded(successful)
        seen.append([registry.get_sample_value(f"flinkwatch_config_last_reload_{name}") for name in names])
    assert seen == [[1, 100], [0, 100], [1, 200]]
