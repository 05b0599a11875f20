"""A server that answers as Slack does: the calls that flinkwatch makes, their limits and errors, a page of the channel.

For the demo and the tests alone.
"""
