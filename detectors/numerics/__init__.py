"""Trends, rank tests and bounded series.

Numbers only: nothing here knows Flink.
"""
