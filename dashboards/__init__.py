"""Grafana dashboards as code: `python -m dashboards` writes conf/grafana/dashboards.

Of no use to a running flinkwatch, so not in the wheel; what it writes is.
"""
