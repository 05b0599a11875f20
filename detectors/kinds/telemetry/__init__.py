"""Logs and metrics that are missing, lost or dated wrong.

What they would have shown is not known here.
"""
