"""A server that answers as the Bot Connector service, its token service and a workflow's webhook are documented to."""
