"""The words of docs/configuration.md that no model holds. Every example in them is loaded by a test."""

HEAD = """\
# Configuration

One YAML file. A setting that is left out has its default; an unknown key is an error. This page is made by
`flinkwatch config docs`.

- `flinkwatch config check FILE` names file, line and key of every error, and what is allowed.
- Durations have a unit: `500ms`, `30s`, `5m`, `24h`, `7d`. Times have a zone: `2026-12-01T06:00:00+01:00`.
- Environment variables win over the file: `FLINKWATCH__KAFKA__ACCESS__BOOTSTRAP_SERVERS=kafka-1:9092`.
- Secrets never stand in the file: settings name the variable or the file that holds them.
- `change` says when a new value counts: `live` for all clusters at the start of one batch, without a restart and
  without losing state; `restart` at the next start. A running job ignores a changed `restart` setting until then and
  names it in a warning.
- Editors complete and check with the schema beside the file, `conf/flinkwatch.schema.json`, when this is its first
  line:

```yaml
# yaml-language-server: $schema=flinkwatch.schema.json
kafka:
  access: {bootstrap_servers: "kafka-1:9092,kafka-2:9092"}
```

A new threshold for all jobs is a line:

```yaml
detectors:
  checkpoint_overdue: {min_age: 2m}
  restart_loop: {count: 5, window: 20m}
  clock_skew: {enabled: false}
```
"""

OVERRIDES = """\
Other thresholds for some clusters, namespaces or jobs. All patterns of an entry must fit; one that is left out fits
everything. A pattern is a glob with `*` and `?`, or after `~` an RE2 expression that must fit the whole name.

```yaml
overrides:
  - cluster: "prod-*"
    job: "~(orders|billing)-v[0-9]+"
    detectors:
      restart_loop: {count: 2}
  - namespace: staging
    detectors:
      restart_loop: {count: 8, window: 30m}
      incidents: {resolve_after: 5m}
  - cluster: "prod-*"
    detectors:
      restart_loop: {window: 20m}
```

Each setting has the value of the first entry that fits and names it: `orders-v2` on `prod-eu` has `count` 2 from the
first entry and `window` 20m from the third; what none names is as in `detectors`. By job can be overridden what is
decided for a job; the rest, such as the loss of a TaskManager, by cluster and namespace. `flinkwatch config show
--for CLUSTER/JOB` says where each value comes from; `flinkwatch config apply` warns of an entry that matches none of
the known clusters and jobs.
"""

SILENCES = """\
Incidents that are followed as ever and told to nobody until a time.

```yaml
silences:
  - job: "backfill-*"
    kinds: ["checkpoint_*", backpressure]
    begins: 2026-11-30T20:00:00+01:00
    until: 2026-12-01T06:00:00+01:00
    author: ann
    comment: yearly backfill
```

`flinkwatch silence add`, `list` and `expire` do the same without the file. What a silence means for messages, and
what is said when it ends, is in [delivery.md](delivery.md#silences); `flinkwatch_incident_silenced` counts the
incidents under one.
"""
