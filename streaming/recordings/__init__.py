"""Recorded records, log files and metrics pages: capture, read, replay without Spark, play back into Kafka.

Comparing two configurations on them is in `streaming.tuning`.
"""
