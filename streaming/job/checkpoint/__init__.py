"""The checkpoint's files: whether they fit and are whole, who holds them, and making a new one.

What Spark writes into them is its own.
"""
