"""The receivers: Slack, a webhook, Alertmanager and PagerDuty.

When and how often they are called is decided in `delivery`.
"""
