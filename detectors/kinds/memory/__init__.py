"""Memory that fills or is exhausted, by kind of memory.

The loss of the process is in `processes`.
"""
