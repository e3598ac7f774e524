"""Inputs of commands: files, standard input, moments and digests."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from attest.terminal import stacked
from kms.cli.options import FILE

if TYPE_CHECKING:
    from datetime import datetime

    from kms.domain.references import StoredDocument

_MAX_INPUT_BYTES = 2 * 1024 * 1024


def read_input(path: Path, *, secret: bool = False) -> bytes:
    """Read a file, or standard input for ``-``.

    Raises:
        ConfigurationError: ``file-unreadable``, or ``secret-file-exposed`` if other users can read a secret file.
    """
    from attest.errors import ConfigurationError
    from attest.secret_files import read_secret

    try:
        if str(path) == "-":
            return sys.stdin.buffer.read(_MAX_INPUT_BYTES)
        if secret:
            return read_secret(path, _MAX_INPUT_BYTES)
        with path.open("rb") as file:
            return file.read(_MAX_INPUT_BYTES)
    except OSError as exc:
        raise ConfigurationError(
            f"cannot read {path}: {exc.strerror or exc}",
            code="file-unreadable",
            field=str(path),
            hint="check the path and that you have permission to read it",
        ) from exc


def read_time(text: str, option: str) -> datetime:
    """Read the time given as an option; anything else is wrong usage."""
    from attest.encoding import rfc3339

    with _wrong_usage():
        return rfc3339(text, what=option)


def read_hex(text: str, option: str) -> bytes:
    """Read the digest given as an option; anything else is wrong usage."""
    from attest.encoding import hex_bytes

    with _wrong_usage():
        return hex_bytes(text, what=option)


@contextmanager
def _wrong_usage() -> Iterator[None]:
    from attest.errors import AttestError

    try:
        yield
    except AttestError as exc:
        raise click.UsageError(f"{exc.message} [{exc.code}]") from exc


def read_policy_input(path: Path) -> bytes:
    """Read a policy; its errors name the file.

    Raises:
        ConfigurationError: ``file-unreadable``, or the file is not a policy.
    """
    from kms.references.resolution import named_by

    data = read_input(path)
    named_by(data, name=str(path))
    return data


def read_evidence_input(path: Path) -> object:
    """Read evidence of any format, as the JSON of a request."""
    from attest import read_evidence

    return json.loads(read_evidence([(path.name, read_input(path))]).evidence.to_json())


def expect_option(text: str) -> Callable[[Any], Any]:  # Any: click's own
    """Make ``--expect``, repeatable; the command gets ``expected``."""
    return click.option("--expect", "expected", multiple=True, metavar="NOTED", help=text)


def checkpoint_option(text: str) -> Callable[[Any], Any]:  # Any: click's own
    """Make ``--checkpoint``, repeatable; the command gets ``checkpoints``."""
    return click.option("--checkpoint", "checkpoints", multiple=True, type=FILE, help=text)


_REFERENCES = (
    click.option(
        "--references",
        multiple=True,
        type=FILE,
        help="Document of reference values that the policy names, if it is not yet in force.",
    ),
    click.option("--references-signature", multiple=True, type=FILE, help="Signature over such a document."),
    click.option("--references-key", multiple=True, type=FILE, help="Public key of such a signature (PEM)."),
)


def references_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--references`` and the options of their signatures; the command gets the documents as ``references``."""

    @wraps(command)
    def called(
        *,
        references: tuple[Path, ...],
        references_signature: tuple[Path, ...],
        references_key: tuple[Path, ...],
        **options: object,
    ) -> None:
        command(references=read_documents(references, references_signature, references_key), **options)

    return stacked(_REFERENCES)(called)


def read_documents(
    documents: tuple[Path, ...], signatures: tuple[Path, ...], keys: tuple[Path, ...]
) -> tuple[StoredDocument, ...]:
    """Read documents of reference values with their signatures."""
    from kms.references.intake import GivenFile, read_given

    def files(paths: tuple[Path, ...]) -> list[GivenFile]:
        return [GivenFile(name=str(path), data=read_input(path)) for path in paths]

    return read_given(files(documents), signatures=files(signatures), keys=files(keys))


def given_references(documents: tuple[StoredDocument, ...]) -> list[dict[str, object]]:
    """Return documents of reference values as in a request, each with its own signatures."""
    return [
        {
            "document": one.document.decode(),
            "signatures": [proof.signature.decode() for proof in one.proofs],
            "keys": [proof.public_key.decode() for proof in one.proofs],
        }
        for one in documents
    ]
