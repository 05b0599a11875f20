"""The Slack sink: Web API client, rendering of messages, threads and charts.

Retries, rate limits and the notification log are in `sinks.delivery`.
"""
