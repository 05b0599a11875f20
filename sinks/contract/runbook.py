"""Where the runbook of a kind is found."""


def runbook_url(base: str, kind: str) -> str:
    """The address of a kind's runbook: in the place of {kind} where the address has it, else behind it.

    >>> runbook_url("https://github.com/acme/runbooks/blob/main/{kind}.md", "node_lost")
    'https://github.com/acme/runbooks/blob/main/node_lost.md'
    """
    return base.replace("{kind}", kind) if "{kind}" in base else f"{base.rstrip('/')}/{kind}"
