"""The Spark job: `query` shows all of it on one screen, `run` starts and stops it.

No other folder of flinkwatch imports pyspark.
"""
