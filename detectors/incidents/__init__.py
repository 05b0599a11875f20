"""Turns findings into incidents: lifecycle, cause graph, transitions, silences, recurrence, known issues.

Detection itself is in `kinds`; delivery of transitions is in `sinks`.
"""
