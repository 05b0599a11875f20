"""An incident as a message of Slack: its blocks, sections, phrases and links.

Nothing here calls Slack.
"""
