"""Charts for Slack: drawn in a process of their own, uploaded by the client.

Which incidents have one is decided by `sink`.
"""
