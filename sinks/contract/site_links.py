"""The address of an incident on the status site, for notifications."""

from urllib.parse import quote

_LONGEST = 200


def incident_url(external_url: str, incident: str) -> str:
    """The address of the incident's page; empty without an address of the site.

    >>> incident_url("https://ops.example.org/flinkwatch", "9f2c41d07b3e")
    'https://ops.example.org/flinkwatch/incidents/9f2c41d07b3e'
    """
    if not external_url or len(incident) > _LONGEST:
        return ""
    return f"{external_url}/incidents/{quote(incident, safe='', errors='replace')}"
