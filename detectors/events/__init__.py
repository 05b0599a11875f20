"""Reads events from Kafka records: documents of log shippers, log layouts, and Flink's log lines and metric names.

No state is kept here. Detectors and the engine process the events.
"""
