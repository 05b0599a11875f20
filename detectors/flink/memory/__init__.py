"""What is known of the memory of each process: heap, its floor, garbage collections.

The kinds of incident about it are in `kinds/memory`.
"""
