"""JSON documents on standard output: as they are for programs, as a tree for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attest.terminal.display import Display

if TYPE_CHECKING:
    from attest.encoding import JsonValue


def mapping_of(value: JsonValue) -> dict[str, JsonValue]:
    """Return a value of a document as a mapping; an empty one if it is of another type."""
    return value if isinstance(value, dict) else {}


def mappings_of(value: JsonValue) -> list[dict[str, JsonValue]]:
    """Return a value of a document as a list of mappings; an empty one if it is of another type."""
    return [mapping_of(member) for member in value] if isinstance(value, list) else []


def print_document(document: JsonValue) -> None:
    """Print one JSON document."""
    import json

    click.echo(json.dumps(document, indent=2))


def show_document(document: JsonValue, *, display: Display, tree: JsonValue = None) -> None:
    """Print a document for programs; or a tree for people, by default the document without its schema."""
    if display.json:
        print_document(document)
    elif not display.quiet:
        from attest.cli.json_tree import print_tree

        if tree is None and isinstance(document, dict):
            tree = {name: value for name, value in document.items() if name != "schema"}
        print_tree(tree, display=display)
