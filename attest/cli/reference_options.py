"""Options that name documents of reference values, for every command that reads a policy."""

from __future__ import annotations

from dataclasses import dataclass

import click

from attest.terminal.display import gathered


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Files of documents of reference values, of detached signatures over them, and of keys whose signatures count."""

    documents: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


NO_REFERENCES = References()

references_options = gathered(
    "references",
    References,
    (
        click.option(
            "--references",
            "documents",
            metavar="FILE",
            multiple=True,
            help="Document of reference values; a policy accepts it by digest or signer. Repeatable.",
        ),
        click.option(
            "--references-signature",
            "signatures",
            metavar="FILE",
            multiple=True,
            help="Detached signature over such a document. Repeatable.",
        ),
        click.option(
            "--references-key",
            "keys",
            metavar="PEM",
            multiple=True,
            help="Public key whose signatures over them count. Repeatable.",
        ),
    ),
    title="Policies and reference values",
)
"""Add ``--references`` and the options of their signatures; the command gets one ``references``."""
