"""One configuration as an engine: the detectors that are enabled, for whom, and when a cluster needs its next step.

An engine has no state. `fold.py` gives it that of a cluster.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from detectors import DETECTORS
from detectors.detector import Detector, Handler
from detectors.engine.state import ClusterState
from detectors.flink.topology import Topology
from detectors.incidents import follow_up, lifecycle
from detectors.incidents.known_issues import IssueCatalogue
from detectors.incidents.silences import Mute

READINGS_EVERY_MS = 5_000
SECOND_MS = 1_000
"""Deadlines are met on whole seconds."""


class JobSettings(NamedTuple):
    """Settings that differ by job: `settings` gives the `DetectorSettings` for a job's name.

    `kinds` has the kinds that differ, with True if any job enables them.
    """

    settings: Callable[[str], Any]
    kinds: dict[str, bool]


class Detectors:
    """Detectors with their config, in the order of the registry, and by the events they subscribe to."""

    def __init__(self, detectors: list[Detector]) -> None:
        self.all = detectors
        self.by_want: dict[str, list[tuple[Detector, Handler]]] = {}
        for detector in detectors:
            for want, handler in sorted(detector.handlers.items()):
                self.by_want.setdefault(want, []).append((detector, handler))


class Engine:
    """The detectors and rules with which events are folded into the states of clusters (`fold.py`).

    `settings` are `DetectorSettings`, `config` is the hash of their configuration, and `mark` changes with every change
    of settings or silences. Detectors that decide for each job use `by_job`. `issues` are the known issues.
    """

    def __init__(
        self,
        settings: Any,
        config: str = "",
        *,
        by_job: JobSettings | None = None,
        silences: tuple[Mute, ...] = (),
        mark: str = "",
        issues: IssueCatalogue = IssueCatalogue(),  # noqa: B008 - it cannot change
    ) -> None:
        self.incident_config = settings.incidents
        self.config = config
        self.mark = mark or config
        self.silences = silences
        self.issues = issues
        self.by_job = by_job or JobSettings(lambda _: settings, {})
        on = [d for d in DETECTORS if getattr(settings, d.kind).enabled or self.by_job.kinds.get(d.kind)]
        self.kinds = frozenset(d.kind for d in on)
        self._shared = Detectors([d(getattr(settings, d.kind)) for d in on])

    def new_state(self) -> ClusterState:
        """The state of a new cluster."""
        return ClusterState(mark=self.mark)

    def detectors(self, topology: Topology) -> Detectors:
        """The detectors for a cluster. They look up settings by the job names in its topology."""
        if not self.by_job.kinds:
            return self._shared
        return Detectors([self.for_jobs(d, topology) if d.kind in self.by_job.kinds else d for d in self._shared.all])

    def for_jobs(self, detector: Detector, topology: Topology) -> Detector:
        """The same detector, which asks for the settings of each job by the name it has now."""
        kind, settings = detector.kind, self.by_job.settings
        return type(detector)(detector.config, lambda job: getattr(settings(topology.job_name(job)), kind))

    def is_off(self, kind: str, subject: str, topology: Topology) -> bool:
        """Whether the detector of a finding is disabled, for all jobs or for the job that is the finding's subject."""
        if kind not in self.by_job.kinds:
            return kind not in self.kinds
        return not getattr(self.by_job.settings(topology.job_name(subject)), kind).enabled

    def next_step(self, state: ClusterState) -> int:
        """The clock time at which the next step is needed even without events."""
        deadline = self.next_deadline(state)
        flush = state.readings_at + READINGS_EVERY_MS if state.unread else None
        end = state.last_event + self.incident_config.forget_after
        return min(t for t in (deadline, flush, end) if t is not None)

    def is_expired(self, state: ClusterState, clock: int) -> bool:
        """Whether the cluster has sent no data for so long that its state is to be deleted."""
        return bool(clock >= state.last_event + self.incident_config.forget_after)

    def next_deadline(self, state: ClusterState) -> int | None:
        """The next whole second of the clock at which a detector or an incident has a deadline.

        While late lines wait, nothing else is due.
        """
        late = state.late.due()
        times = [*state.deadlines.values()] if late is None else [late]
        if late is None:
            waiting = lifecycle.next_deadline(state.incidents, state.last_event, self.incident_config)
            times += [at for at in (waiting, follow_up.next_deadline(state.followed)) if at is not None]
        if not times:
            return None
        # A deadline in the past, or in the second just met, moves to the next second: otherwise the loop would not end.
        return max(-(-min(times) // SECOND_MS), state.clock // SECOND_MS + 1) * SECOND_MS
