"""The site of the docs: whatever a browser would load from another host is found; each page is in the navigation."""

from pathlib import Path

import pytest
from mkdocs.exceptions import PluginError

from tests import site

FROM_ELSEWHERE = [
    ('<script src="https://cdn.example/a.js"></script>', ".html"),
    ('<script src="//cdn.example/a.js"></script>', ".html"),
    ('<link rel="stylesheet" href="https://fonts.example/css">', ".html"),
    ('<link rel="preconnect" href="https://fonts.example">', ".html"),
    ('<img src="https://img.shields.example/badge.svg">', ".html"),
    ('<img srcset="a.png 1x, https://img.example/b.png 2x">', ".html"),
    ("<style>body { background: url(https://img.example/a.png) }</style>", ".html"),
    ('<p style="background: url(//img.example/a.png)">', ".html"),
    ("@import 'https://fonts.example/css';", ".css"),
    ('a { background: url( "https://img.example/a.png" ) }', ".css"),
]
OF_THE_SITE = [
    ('<script src="../assets/a.js"></script><img src="images/a.png"><link rel="icon" href="a.png">', ".html"),
    (
        '<a href="https://flink.apache.org">to follow</a><link rel="canonical" href="https://a.b">',
        ".html",
    ),
    (
        "a { background: url(data:image/svg+xml;base64,PHN2Zy8+) }",
        ".css",
    ),
]


@pytest.mark.parametrize(("text", "suffix"), FROM_ELSEWHERE)
def test_what_would_be_loaded_from_elsewhere_fails_the_build(text: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"page{suffix}").write_text(text)
    with pytest.raises(PluginError, match=f"page{suffix}: (https:)?//"):
        site.on_post_build({"site_dir": str(tmp_path)})


@pytest.mark.parametrize(("text", "suffix"), OF_THE_SITE)
def test_what_is_of_the_site_or_only_linked_is_fine(text: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"page{suffix}").write_text(text)
    site.on_post_build({"site_dir": str(tmp_path)})
