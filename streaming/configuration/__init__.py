"""The configuration file, the topic that holds the configuration in force, and live changes of it.

The settings of detectors and sinks are defined next to these; the pages made from all settings are in `reference`.
"""
