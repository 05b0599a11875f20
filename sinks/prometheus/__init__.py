"""The metrics page and the readiness of a process.

The table of all metrics is `catalogue`.
"""
