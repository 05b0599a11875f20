"""The documents in which log shippers and metric agents send lines and samples.

The line itself is read in `layouts`.
"""
