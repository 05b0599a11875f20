"""What log shippers and metric agents put around a line or a sample.

The line itself is read in `layouts`.
"""
