"""A PIN or a token in a file of one line: never an argument, never in the environment."""

from __future__ import annotations

from pathlib import Path

from kms.domain.secret import SecretBytes
from kms.keys.wrapping.secret_files import PrivateFile, unusable

MAX_CREDENTIAL_BYTES = 4096


def read_credential(path: Path, *, noun: str, field: str) -> SecretBytes:
    """Read a line of printable ASCII from a file that is private to its owner.

    Raises:
        ConfigurationError: ``kek-credential-missing``, ``kek-credential-unusable`` or ``kek-credential-exposed``.
    """
    file = PrivateFile(
        path=path,
        noun=noun,
        codes=("kek-credential-missing", "kek-credential-unusable", "kek-credential-exposed"),
        field=field,
        hint="write it there, in one line, of mode 0600",
        exposed="if somebody may have read it, have it changed",
    )
    content = file.read(MAX_CREDENTIAL_BYTES + 1)
    line = content.removesuffix(b"\n")
    if not line or len(content) > MAX_CREDENTIAL_BYTES or not all(0x20 < byte < 0x7F for byte in line):
        raise unusable(file, "expected one line of printable ASCII without spaces")
    return SecretBytes(line)
