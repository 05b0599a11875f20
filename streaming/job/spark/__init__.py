"""The Spark session and its JVM: start, log, errors, and the program as executors get it.

What the job does with Spark is in `streaming.job`.
"""
