"""The Spark session and its JVM: start, log, errors, and the code archive for executors.

The query that runs in the session is in `streaming.job`.
"""
