"""What logs and metrics tell of a Flink cluster: topology, JobManagers, checkpoints, heap, task load, root causes.

Nothing here decides that something is wrong: that is for `kinds`.
"""
