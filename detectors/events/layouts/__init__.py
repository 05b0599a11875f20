"""How a log line is laid out: patterns of log4j and logback, JSON, stack traces, times, what tools put before a line.

What the line says is in `vocabulary`.
"""
