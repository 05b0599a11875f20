"""Sends each incident once to each receiver: consumer group, notification log, outbox, rate limits, storms.

It knows receivers by their contract alone. `policy.py` decides what is done next for a notification.
"""
