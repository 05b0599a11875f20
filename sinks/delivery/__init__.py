"""Each incident once to each receiver: consumer group, notification log, outbox, rate limits, storms.

It knows receivers by their contract alone.
"""
