"""A hook of the docs' build (`mkdocs.yml`): no page, style or script loads anything from another host."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mkdocs.exceptions import PluginError

# What a browser fetches by itself; a link that a reader may follow is none of these.
_LOADS = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "input": "src",
    "object": "data",
    "script": "src",
    "source": "src",
    "track": "src",
    "video": "src",
}
_LINKS = frozenset(["dns-prefetch", "icon", "modulepreload", "preconnect", "prefetch", "preload", "stylesheet"])
_IN_STYLE = re.compile(r"""(?:url\(|@import)\s*["']?\s*((?:https?:)?//[^\s"')]+)""", re.IGNORECASE)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.loads += [values[_LOADS[tag]]] if tag in _LOADS and _LOADS[tag] in values else []
        self.loads += [one.split()[0] for one in values.get("srcset", "").split(",") if one.strip()]
        if tag == "link" and not _LINKS.isdisjoint(values.get("rel", "").split()):
            self.loads.append(values.get("href", ""))
        self.loads += _IN_STYLE.findall(values.get("style", ""))
        self._style = tag == "style"

    def handle_data(self, data: str) -> None:
        if self._style:
            self.loads += _IN_STYLE.findall(data)


def loads_from_elsewhere(text: str, suffix: str) -> list[str]:
    """Addresses on other hosts that a browser would load for this page (`.html`) or style (`.css`)."""
    if suffix == ".css":
        return _IN_STYLE.findall(text)
    page = _Page()
    page.feed(text)
    page.close()
    return [address for address in page.loads if urlsplit(address.strip()).netloc]


def on_post_build(config: Any, **_: object) -> None:
    """Fail the build when a file of the site loads something from another host."""
    site = Path(config["site_dir"])
    found = [
        f"{path.relative_to(site)}: {address}"
        for path in sorted(site.rglob("*"))
        if path.suffix in {".html", ".css"}
        for address in loads_from_elsewhere(path.read_text(encoding="utf-8"), path.suffix)
    ]
    if found:
        raise PluginError("the site must load nothing from elsewhere:\n" + "\n".join(found))
