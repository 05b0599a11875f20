"""Records that wait or are lost although processes and jobs run.

Checkpoints that suffer from it are in `checkpoints`.
"""
