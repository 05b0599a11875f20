"""The files of the checkpoint: checks for damage and changed settings, the lock, and `flinkwatch rebuild`.

The content that Spark writes is not interpreted here, except for offsets.
"""
