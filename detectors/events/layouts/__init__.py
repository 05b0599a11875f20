"""Layouts of log lines: log4j and logback patterns, JSON, stack traces, times, and prefixes added by tools.

The meaning of the message is found in `vocabulary`.
"""
