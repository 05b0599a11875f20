"""Recordings, log files and metrics pages: capture and read them, replay them without Spark, play them into Kafka.

`streaming.tuning` compares two configurations on them.
"""
