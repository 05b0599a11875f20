"""Who may read the status site: the host name that a browser asks for, and the login."""

import base64
import binascii
import hmac
from collections.abc import Collection
from email.message import Message
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import urlsplit

from sinks.secret import read_header_secret, read_secret
from sinks.web.site.settings import WebConfig


def allowed_names(config: WebConfig, address: str) -> frozenset[str]:
    """The host names under which the site answers, in lower case; `address` is what the server listens on."""
    external = urlsplit(config.external_url).hostname or ""
    names = ("localhost", address, external, *config.allowed_hosts)
    return frozenset(name.lower() for name in names if name)


def host_problem(headers: Message, allowed: Collection[str]) -> str | None:
    """Why a request is refused for the host it names; None if it is not.

    A page of another site can make a visitor's browser resolve that site's name to this server (DNS rebinding). The
    browser then sends that name, which is neither an IP address nor allowed.
    """
    hosts = headers.get_all("Host", [])
    if len(hosts) != 1:
        return "the request must have one header Host"
    try:
        name = (urlsplit(f"//{hosts[0]}").hostname or "").rstrip(".")
    except ValueError:
        return "the header Host is not valid"
    if name in allowed or _is_address(name):
        return None
    return "this host name is not allowed; if it is right, add it to sinks.web.allowed_hosts"


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def check_secrets(config: WebConfig) -> None:
    """Raises SecretError if a token or password is set up and cannot be read."""
    if config.has_token:
        read_header_secret("token", config.token_env, config.token_file)
    if config.has_password:
        read_secret("password", config.password_env, config.password_file)


def may_read(headers: Message, config: WebConfig) -> bool:
    """Whether the request has the token or the password, if there is one. Raises SecretError if it cannot be read.

    Secrets are read at each request, so that a rotated file takes effect.
    """
    if not config.needs_login:
        return True
    scheme, _, given = headers.get("Authorization", "").partition(" ")
    match scheme.lower():
        case "bearer" if config.has_token:
            return _same(given.strip(), read_header_secret("token", config.token_env, config.token_file))
        case "basic" if config.has_password:
            password = read_secret("password", config.password_env, config.password_file)
            return _same(_decoded(given.strip()), f"{config.user}:{password}")
    return False


def _decoded(given: str) -> str:
    try:
        return base64.b64decode(given, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""


def _same(given: str, secret: str) -> bool:
    """Compare in a time that depends neither on the content nor on the length of the secret."""
    digests = (sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (given, secret))
    return hmac.compare_digest(*digests)
