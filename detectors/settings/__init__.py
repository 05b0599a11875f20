"""Thresholds and overrides that are changed while the job runs.

The settings that need a restart are in `streaming.configuration`.
"""
