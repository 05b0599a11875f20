"""Grafana dashboards as code: `python -m dashboards` writes conf/grafana/dashboards.

Not needed at run time, so it is not part of the wheel. The dashboards that it writes are.
"""
