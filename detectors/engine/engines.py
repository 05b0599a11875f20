"""The configuration in force as engines: one engine for all clusters to which the same overrides apply."""

from functools import lru_cache
from hashlib import sha256
from typing import Any

from detectors.engine.engine import Engine, JobSettings
from detectors.incidents.known_issues import IssueCatalogue
from detectors.incidents.silences import Mute, Silence
from detectors.settings.live import DetectorSettings, LiveSettings
from detectors.settings.overrides import resolve

_MAX_NAMES = 4096


class Configuration:
    """The settings, silences and known issues with which clusters are stepped."""

    def __init__(
        self, live: LiveSettings, config_hash: str, silences: tuple[Silence, ...], issues: IssueCatalogue
    ) -> None:
        self.overrides = live.overrides
        self._written = live.detectors.model_dump(mode="json")
        self._hash = config_hash
        # A silence from the command line replaces one of the file with the same ID.
        by_id = {s.id: s for s in (*live.silences, *silences)}
        self._silences: tuple[Mute, ...] = (*by_id.values(), *live.maintenance)
        made = sha256(b"".join(s.model_dump_json().encode() for s in silences)).hexdigest()[:8]
        self._mark = f"{config_hash} {made}"
        self._issues = issues
        self._engines: dict[tuple[int, ...], Engine] = {}
        self._settings: dict[tuple[int, ...], Any] = {(): live.detectors}
        self._of_cluster = lru_cache(maxsize=_MAX_NAMES)(self._engine)
        self._fitting = lru_cache(maxsize=_MAX_NAMES)(self._fitting_cluster)
        self._of_job = lru_cache(maxsize=_MAX_NAMES)(self._fitting_job)

    def engine(self, cluster: str) -> Engine:
        """The engine for a cluster."""
        return self._of_cluster(cluster)

    def _fitting_cluster(self, cluster: str) -> tuple[int, ...]:
        return tuple(number for number, override in enumerate(self.overrides) if override.fits_cluster(cluster))

    def _fitting_job(self, job: str) -> frozenset[int]:
        return frozenset(number for number, override in enumerate(self.overrides) if override.fits_job(job))

    def _engine(self, cluster: str) -> Engine:
        fitting = self._fitting(cluster)
        engine = self._engines.get(fitting)
        if engine is None:
            engine = self._engines[fitting] = self._new_engine(fitting)
        return engine

    def _new_engine(self, fitting: tuple[int, ...]) -> Engine:
        for_all = tuple(i for i in fitting if not self.overrides[i].by_job)
        switched: dict[str, bool] = {}
        for number in set(fitting).difference(for_all):
            for kind, block in self.overrides[number].detectors.items():
                switched[kind] = switched.get(kind, False) or bool(block.get("enabled"))

        @lru_cache(maxsize=_MAX_NAMES)
        def by_job(job: str) -> Any:
            return self._resolved(tuple(i for i in fitting if i in self._of_job(job)))

        return Engine(
            self._resolved(for_all),
            self._hash,
            by_job=JobSettings(by_job, switched) if switched else None,
            silences=self._silences,
            mark=self._mark,
            issues=self._issues,
        )

    def _resolved(self, chosen: tuple[int, ...]) -> Any:
        settings = self._settings.get(chosen)
        if settings is None:
            found = resolve(self._written, self.overrides, chosen)
            values = {kind: {key: v.value for key, v in block.items()} for kind, block in found.items()}
            settings = self._settings[chosen] = DetectorSettings.model_validate(values)
        return settings
