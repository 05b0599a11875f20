"""The step over one cluster and over a bucket of clusters: order of events, clock, state, isolation of failing events.

The engine knows no kind of incident. Kinds are registered in `detectors`.
"""
