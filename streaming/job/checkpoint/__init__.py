"""The checkpoint: damage, changed settings, the lock, topics that were created again, and `flinkwatch rebuild`.

The content that Spark writes is not interpreted here, except for offsets.
"""
