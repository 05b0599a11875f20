"""Settings of the lifecycle of incidents, the block `detectors.incidents`."""

from pydantic import BaseModel, ConfigDict, Field

from detectors.values.durations import Duration


class IncidentConfig(BaseModel):
    """When incidents are updated, resolved and forgotten. Changes are applied without a restart."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    resolve_after: Duration = Field(
        60_000,
        description="Time between the last finding's end and the notification that the incident is resolved. A longer "
        "time damps flapping.",
    )
    reopen_within: Duration = Field(
        600_000,
        description="Time after an incident was resolved within which a recurring finding reopens it instead of "
        "opening a new incident.",
    )
    stale_after: Duration = Field(
        900_000,
        description="Time without any data from a cluster after which its open incidents become stale: their state is "
        "unknown.",
    )
    update_every: Duration = Field(
        60_000,
        description="Shortest time between two updates of an incident that only bring new numbers (same cause, "
        "severity and kinds of findings). It doubles with each such update.",
    )
    max_update_interval: Duration = Field(
        1_800_000,
        description="Longest time between two updates that only bring new numbers. A trend of hours needs no update "
        "every minute.",
    )
    recurrence_min_count: int = Field(
        3,
        ge=2,
        le=20,
        description="Number of occurrences of the same kind on the same job, within `recurrence_window`, from which an "
        "incident is reported as recurring.",
    )
    recurrence_window: Duration = Field(
        1_209_600_000,
        description="Time window in which occurrences are counted. It must be long, because a slow leak may fill the "
        "memory only every few days.",
    )
    forget_after: Duration = Field(
        604_800_000,
        description="Time without any data from a cluster after which its state and metrics are deleted. Every YARN "
        "application and every preview deployment is a cluster of its own.",
    )
