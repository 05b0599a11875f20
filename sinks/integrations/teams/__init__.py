"""Microsoft Teams as a receiver: a bot, whose messages are edited, or the webhook of a workflow, which only posts."""
