"""Thresholds and overrides that can be changed while the job runs.

The settings that need a restart are in `streaming.configuration`.
"""
