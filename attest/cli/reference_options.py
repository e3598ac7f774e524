"""Options that name documents of reference values, for every command that reads a policy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps

import click

from attest.terminal.display import Command, stacked


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Documents of reference values as the command line names them.

    Attributes:
        files: the documents.
        signatures: detached signatures over them, in any order.
        keys: public keys whose signatures count.
    """

    files: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


NO_REFERENCES = References()
_OPTIONS = (
    click.option(
        "--references",
        metavar="FILE",
        multiple=True,
        help="Document of reference values; a policy takes those that it accepts by digest or signer. Repeatable.",
    ),
    click.option(
        "--references-signature",
        metavar="FILE",
        multiple=True,
        help="Detached signature over such a document. Repeatable.",
    ),
    click.option(
        "--references-key",
        metavar="PEM",
        multiple=True,
        help="Public key whose signatures over them count. Repeatable.",
    ),
)


def references_options(command: Command) -> Command:
    """Add ``--references`` and the options of their signatures; the command gets one ``references``."""

    @wraps(command)
    def run(
        *,
        references: tuple[str, ...],
        references_signature: tuple[str, ...],
        references_key: tuple[str, ...],
        **options: object,
    ) -> object:
        named = References(files=references, signatures=references_signature, keys=references_key)
        return command(references=named, **options)

    return stacked(_OPTIONS)(run)
