"""Small values used everywhere: bounded maps, durations, name patterns, decoding.

Nothing here imports other packages of flinkwatch.
"""
