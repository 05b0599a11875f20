"""/metrics and /-/ready of a process.

All metrics are listed in `catalogue`.
"""
