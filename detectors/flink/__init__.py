"""The state of a Flink cluster as logs and metrics show it: jobs, processes, checkpoints, heap, load, root causes.

Nothing in here decides that something is wrong: that is for `kinds`.
"""
