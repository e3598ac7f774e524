"""The documentation: its pages as text, and all of its files for a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from mimetypes import guess_type
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from attest.page.files import PageFile
from attest.shipped.parts import heading_anchor

_FOLDERS: Final = ("docs", "policies")
_HERE: Final = Path(__file__).parent
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; img-src 'self'; style-src 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_STYLE: Final = """
html { color-scheme: light dark; }
body { margin: 2rem auto; max-width: 50rem; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid; border-radius: .25rem; }
code { font: .9em ui-monospace, monospace; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid; padding: .25rem .5rem; text-align: left; vertical-align: top; }
"""
_TITLE: Final = re.compile(r"^# +(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentationPage:
    """A page of the documentation.

    Attributes:
        name: path below ``docs/`` without its suffix.
        text: Markdown.
    """

    name: str
    title: str
    text: str


def pages() -> Mapping[str, DocumentationPage]:
    """Return the pages by name."""
    folder = _HERE / "docs"
    found = {}
    for path in sorted(folder.rglob("*.md")):
        name = path.relative_to(folder).with_suffix("").as_posix()
        text = path.read_text(encoding="utf-8")
        found[name] = DocumentationPage(name=name, title=_title_of(text) or name, text=text)
    return found


def documentation_files(*, version: str) -> Mapping[str, PageFile]:
    """Return what a browser shows, by path; links between the pages hold as they do in the repository."""
    contents = "".join(
        f'<li><a href="docs/{escape(one.name)}.md">{escape(one.title)}</a></li>' for one in pages().values()
    )
    found = {
        "/": _html(f"attest {version}", f"<h1>attest {escape(version)}</h1><ul>{contents}</ul>"),
        "/style.css": PageFile(media_type="text/css", body=_STYLE.encode(), headers=_HEADERS),
    }
    for path in _paths():
        found[f"/{path.relative_to(_HERE).as_posix()}"] = _file(path)
    return found


def _paths() -> Iterator[Path]:
    for folder in _FOLDERS:
        yield from sorted(path for path in (_HERE / folder).rglob("*") if path.is_file())


def _file(path: Path) -> PageFile:
    data = path.read_bytes()
    if path.suffix == ".md":
        text = data.decode()
        return _html(_title_of(text) or path.stem, _rendered(text))
    media_type = "text/plain; charset=utf-8" if path.suffix == ".yaml" else guess_type(path.name)[0]
    return PageFile(media_type=media_type or "application/octet-stream", body=data, headers=_HEADERS)


def _title_of(text: str) -> str | None:
    found = _TITLE.search(text)
    return None if found is None else found[1].replace("`", "")


def _html(title: str, body: str) -> PageFile:
    document = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        '<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/style.css"></head>'
        f'<body><nav><a href="/">Contents</a></nav><main>{body}</main></body></html>'
    )
    return PageFile(media_type="text/html; charset=utf-8", body=document.encode(), headers=_HEADERS)


def _rendered(text: str) -> str:
    reader = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = reader.parse(text)
    for opening, inline in pairwise(tokens):
        if opening.type == "heading_open":
            opening.attrSet("id", _anchor(inline))
    rendered: str = reader.renderer.render(tokens, reader.options, {})
    return rendered


def _anchor(heading: Token) -> str:
    """Return the name of a heading, as links to it spell it."""
    return heading_anchor("".join(child.content for child in heading.children or ()))
