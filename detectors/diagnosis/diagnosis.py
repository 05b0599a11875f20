"""What `flinkwatch doctor` lists for a cluster: settings that make incidents likely, known issues of its version."""

from typing import Any, NamedTuple

from detectors.diagnosis.known_cluster import KnownCluster
from detectors.diagnosis.setting_rules import RULES, SettingRule
from detectors.incident import KnownIssue
from detectors.incidents.known_issues import IssueCatalogue, possible


class Risk(NamedTuple):
    """A rule that a cluster meets, and what was seen in it."""

    rule: SettingRule
    seen: str


class Diagnosis(NamedTuple):
    """All that is listed for a cluster. `unknown` says what could not be judged, in sentences."""

    cluster: KnownCluster
    risks: list[Risk]
    issues: list[KnownIssue]
    unknown: list[str]

    def document(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "cluster": self.cluster.name,
            "version": self.cluster.version,
            "settings": self.cluster.settings,
            "risks": [
                {"rule": r.name, "seen": seen, "why": r.why, "to_do": r.to_do, "runbook": r.runbook}
                for r, seen in self.risks
            ],
            "known_issues": self.issues,
            "unknown": self.unknown,
        }


def diagnose(cluster: KnownCluster, issues: IssueCatalogue, all_older: bool = False) -> Diagnosis:
    """Judge one cluster by the table of rules and the known issues, with `all_older` as in `known_issues.possible`."""
    risks = [Risk(rule, seen) for rule in RULES if (seen := rule.seen(cluster))]
    found = possible(issues, cluster.version, cluster.settings, all_older)
    unknown = []
    if not cluster.version:
        unknown.append(
            "Flink's version is unknown, so no known issues are listed. Flink prints it when a process starts."
        )
    if not cluster.printed:
        unknown.append(
            "The settings are unknown. Flink prints them when a process starts, at the log level INFO: "
            "`Loading configuration property`."
        )
    return Diagnosis(cluster, risks, found, unknown)
