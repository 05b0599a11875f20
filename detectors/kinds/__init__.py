"""The kinds of incident, one module each, named as the kind.

Nothing else is in here: what several kinds share is in `patterns`, what is known of Flink in `flink`.
"""
