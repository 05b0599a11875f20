"""Code that several kinds share: one finding for each process without memory, advice that keeps a job's state.

Knowledge of Flink is in `flink`, statistics in `numerics`.
"""
