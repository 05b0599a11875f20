"""Decides which receivers are notified of an incident: routes as in Alertmanager, and quiet hours.

Routes apply to new messages only. An existing message is edited until its incident ends, even if the routes change.
"""

from collections.abc import Iterable
from datetime import datetime
from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict, Field

from detectors.incident import SEVERITIES, Severity, Transition
from detectors.incidents.shared_resources import clusters_of
from detectors.values.weekly_hours import WeeklyHours


class _RoutingSection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Route(_RoutingSection):
    """Incidents that match every field go to the receivers in `to`; fields are patterns with * and ?."""

    cluster: str = Field(default="*", description="Pattern for the cluster's name.")
    job: str = Field(default="*", description="Pattern for the job's name.")
    kinds: tuple[str, ...] = Field(default=("*",), min_length=1, description="Patterns for the kind of the cause.")
    severity: Severity = Field(default="info", description="Lowest severity that the route matches.")
    to: tuple[str, ...] = Field(
        description='Receivers: names of enabled sinks, such as webhook, or "slack:<channel>". If empty, no one is '
        "notified."
    )
    go_on: bool = Field(default=False, alias="continue", description="Whether the following routes are applied too.")

    def fits(self, transition: Transition) -> bool:
        return (
            any(fnmatchcase(cluster, self.cluster) for cluster in clusters_of(transition))
            and fnmatchcase(transition.job_name, self.job)
            and any(fnmatchcase(transition.cause, kind) for kind in self.kinds)
            and SEVERITIES.index(transition.severity) >= SEVERITIES.index(self.severity)
        )


class QuietHours(WeeklyHours):
    """New incidents below a severity wait from `begin` to `end`. If they are still open then, they are sent."""

    below: Severity = Field(default="critical", description="Incidents of this severity or a higher one do not wait.")
    to: tuple[str, ...] = Field(default=("*",), min_length=1, description="Patterns for the receivers that are quiet.")


class Routing(_RoutingSection):
    """Which receivers are notified of an incident, and when. A change applies to new messages at once."""

    routes: tuple[Route, ...] = Field(
        default=(),
        description="Routes in order, as in Alertmanager: the first that matches decides, unless it has "
        'continue: true. For example [{cluster: "prod-*", severity: critical, to: ["slack:#oncall", pagerduty], '
        "continue: true}].",
    )
    default: tuple[str, ...] | None = Field(
        default=None,
        description="Receivers of incidents that match no route. null means every enabled sink, for Slack its own "
        "channel.",
    )
    quiet_hours: tuple[QuietHours, ...] = Field(
        default=(),
        description="Hours during which the receivers in `to` get no new incidents below the severity `below`. Those "
        "that are still open are sent at the end. For example "
        '[{begin: "22:00", end: "07:00", time_zone: Europe/Berlin, below: critical, to: ["slack*"]}].',
    )

    def receivers(self, enabled: Iterable[str]) -> tuple[str, ...]:
        """Every receiver that the routes name, and those of the default."""
        named = [receiver for route in self.routes for receiver in route.to]
        return tuple(dict.fromkeys([*self.defaults(enabled), *named]))

    def applied(self, transition: Transition) -> tuple[list[int], bool]:
        """(Indexes of the routes that apply to a new incident, whether the default does)."""
        found: list[int] = []
        for index, route in enumerate(self.routes):
            if route.fits(transition):
                found.append(index)
                if not route.go_on:
                    return found, False
        return found, not any(self.routes[index].to for index in found)

    def targets(self, transition: Transition, enabled: Iterable[str]) -> tuple[str, ...]:
        """The receivers of a new incident."""
        indexes, by_default = self.applied(transition)
        named = [receiver for index in indexes for receiver in self.routes[index].to]
        return tuple(dict.fromkeys([*named, *(self.defaults(enabled) if by_default else ())]))

    def defaults(self, enabled: Iterable[str]) -> tuple[str, ...]:
        """The receivers of incidents that match no route."""
        return tuple(enabled) if self.default is None else self.default

    def quiet_until(self, receiver: str, transition: Transition, now: datetime) -> datetime | None:
        """Until when a receiver gets no notification of a new incident, None if it may get it now."""
        ends = [
            until
            for hours in self.quiet_hours
            if SEVERITIES.index(transition.severity) < SEVERITIES.index(hours.below)
            and any(fnmatchcase(receiver, pattern) for pattern in hours.to)
            and (until := hours.until(now)) is not None
        ]
        return max(ends, default=None)
