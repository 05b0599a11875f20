"""What is known of each job's checkpoints: in progress, completed, failed, slow, late.

The kinds of incident about them are in `kinds/checkpoints`.
"""
