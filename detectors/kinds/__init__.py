"""The kinds of incident, one module each, named after the kind, in a folder for each area.

Code that several kinds share is in `patterns`; knowledge of Flink is in `flink`.
"""
