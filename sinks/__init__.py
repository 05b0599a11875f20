"""Sends incidents to people and exports metrics to Prometheus, reading both from Kafka.

Nothing here imports Spark.
"""
