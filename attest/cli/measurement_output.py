"""The output of ``attest measure``: the schema of its JSON, and the part of a policy that names measurements."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import file_digest
from pathlib import Path

MEASUREMENT_SCHEMA = "attest.measurement/1"


def stated_origin(command: str, *, files: Mapping[str, str | None], texts: Mapping[str, str | None]) -> str:
    """Return the origin of a measurement: files by name and SHA-256, so that anyone can repeat it.

    Args:
        command: the command without its options.
        files: paths by name of the option; None is left out.
        texts: other options, as above.
    """
    return f"{command}: " + ", ".join((*_described(files), *(f"{name} {text}" for name, text in texts.items() if text)))


def _described(files: Mapping[str, str | None]) -> Iterator[str]:
    for name, path in files.items():
        if path is not None:
            with Path(path).open("rb") as file:
                yield f"{name} {Path(path).name} sha256 {file_digest(file, 'sha256').hexdigest()}"


def snippet(values: Mapping[str, Sequence[tuple[str, str]]], *, origin: str) -> str:
    """Write reference values of a policy in YAML. JSON strings are YAML strings, so JSON's encoder does the quoting.

    Args:
        values: by name of the reference values, each value with a comment.
        origin: the same for all.
    """
    lines = ["reference_values:"]
    for name, rows in values.items():
        lines += [f"  {json.dumps(name)}:", f"    origin: {json.dumps(origin)}", "    values:"]
        lines += [f'      - "{value}"  # {comment}' for value, comment in rows]
    return "\n".join(lines) + "\n"
