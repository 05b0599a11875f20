"""Small values that all rooms use: bounded maps, durations, patterns of names, decoding.

Nothing here imports anything else of flinkwatch.
"""
