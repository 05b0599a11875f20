"""Threads of the driver that follow flinkwatch's own topics and act on what is in them.

Reading Flink's records is the query's work, and the configuration topic has a follower of its own in `configuration`.
"""
