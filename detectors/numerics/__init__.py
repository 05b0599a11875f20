"""Trends, rank tests and bounded series.

Only statistics: nothing in here depends on Flink.
"""
