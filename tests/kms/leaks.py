"""Looking for the keys of the tests in everything that a test leaves behind (MC-33).

The material of every key that tests import, and the key-encryption key of every service that they make, is looked for
as it is, in hex, in base64 and as Python shows bytes: in what was printed and logged, in the text of failures, and in
every file below the test's folder. It may stand where somebody put it on purpose, and nowhere else.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

__all__ = ["found_in_files", "found_in_texts", "secrets_below", "spellings"]

MAX_FILE_BYTES = 64 * 1024 * 1024
_KEK_HEAD = b"attest-kms-kek-v1 "


def spellings(secret: bytes) -> tuple[bytes, ...]:
    """Return how a secret may look, the beginning of base64 without what depends on the bytes that follow."""
    texts = (
        secret.hex(),
        secret.hex().upper(),
        base64.b64encode(secret).decode().rstrip("=")[:-1],
        base64.urlsafe_b64encode(secret).decode().rstrip("=")[:-1],
        repr(secret)[2:-1],
        str(list(secret))[1:-1],
    )
    return (secret, *(text.encode() for text in texts))


def secrets_below(folder: Path) -> Iterator[bytes]:
    """Yield the key-encryption keys in the files that hold one."""
    for path in _files(folder):
        content = _content(path)
        if content.startswith(_KEK_HEAD):
            yield base64.urlsafe_b64decode(content.removeprefix(_KEK_HEAD).strip() + b"=")


def found_in_texts(texts: Mapping[str, str], secrets: Iterable[bytes]) -> list[str]:
    """Name the texts in which a secret stands."""
    wanted = [spelling for secret in secrets for spelling in spellings(secret)]
    return [
        name
        for name, text in texts.items()
        if any(spelling in text.encode("utf-8", errors="surrogateescape") for spelling in wanted)
    ]


def found_in_files(folder: Path, secrets: Iterable[bytes]) -> list[str]:
    """Name the files in which a secret stands, other than a file that is nothing but a secret."""
    known = list(secrets)
    wanted = [spelling for secret in known for spelling in spellings(secret)]
    return [
        str(path.relative_to(folder))
        for path in _files(folder)
        if not _is_a_secret(content := _content(path), known) and any(spelling in content for spelling in wanted)
    ]


def _is_a_secret(content: bytes, secrets: list[bytes]) -> bool:
    return content in secrets or content.startswith(_KEK_HEAD)


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= MAX_FILE_BYTES:
            yield path


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # gone meanwhile, or nobody's
