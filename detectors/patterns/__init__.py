"""What several kinds have in common: one finding for each process, advice that keeps a job's state.

Knowledge of Flink is in `flink`, arithmetic in `numerics`.
"""
