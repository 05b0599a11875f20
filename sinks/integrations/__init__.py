"""The receivers: Slack, a webhook, Alertmanager and PagerDuty.

`delivery` decides when and how often they are called.
"""
