"""Overviews that are sent on schedule: from the topics to the outbox."""
