"""What makes incidents likely in a cluster although nothing has happened: risky settings, known issues of its version.

It is a list for people, never an alert. The command `doctor` and the status site show it.
"""
