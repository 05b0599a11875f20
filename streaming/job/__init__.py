"""The Spark job: `query` is all of it on one screen, `run` its life.

Nothing else of flinkwatch imports pyspark.
"""
