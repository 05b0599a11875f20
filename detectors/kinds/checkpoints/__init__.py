"""Checkpoints that hang, fail, slow down or are acknowledged too late.

Failing restores are in `jobs`.
"""
