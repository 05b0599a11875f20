"""The step over one cluster and over one bucket of clusters: order of events, clock, state, a failing event isolated.

It knows no kind of incident by name.
"""
