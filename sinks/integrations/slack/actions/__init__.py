"""What people do in Slack: buttons in messages and the command /flinkwatch, received over Slack's Socket Mode.

What a request does is in `sinks.delivery`.
"""
