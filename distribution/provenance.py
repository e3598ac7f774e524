"""Provenance of the published files: an in-toto statement with SLSA's predicate."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from google.protobuf.json_format import MessageToDict
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement

PREDICATE: Final = "https://slsa.dev/provenance/v1"
BUILD_TYPE: Final = "urn:attest-kms:make-dist:1"
"""``make dist`` on a checkout of ``source`` with the packages of ``requirements/dev.txt``."""
BUILDER: Final = "urn:attest-kms:builder:local"
_PIN: Final = re.compile(r"^(?P<name>[a-z0-9-]+)==(?P<version>[^ ;\\]+)", re.MULTILINE)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return sha256(path.read_bytes()).hexdigest()


def provenance(
    artifacts: Sequence[Path], *, commit: str, epoch: int, lock_file: Path, parameters: Mapping[str, str]
) -> dict[str, Any]:
    """Return the statement.

    Args:
        artifacts: the files that it is about.
        commit: of the checkout that the artifacts were built from.
        epoch: seconds since 1970 that the archives state for every file.
        lock_file: of the packages that built them.
        parameters: what else the result depends on.
    """
    sources = [{"name": "source", "digest": {"gitCommit": commit}}, *_builders(lock_file)]
    statement = Statement(
        [ResourceDescriptor(name=path.name, digest={"sha256": digest_of(path)}).pb for path in artifacts],
        PREDICATE,
        {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"SOURCE_DATE_EPOCH": str(epoch), **parameters},
                "resolvedDependencies": sources,
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    )
    statement.validate()
    found: dict[str, Any] = MessageToDict(statement.pb)
    return found


def write_provenance(statement: Mapping[str, Any], target: Path) -> None:
    """Write a statement, sorted."""
    target.write_text(json.dumps(statement, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _builders(lock_file: Path) -> list[dict[str, Any]]:
    """Name the lock file, and the packages of it that make the artifacts."""
    text = lock_file.read_text(encoding="utf-8")
    pins = {found["name"]: found["version"] for found in _PIN.finditer(text)}
    packages = [
        {"uri": f"pkg:pypi/{name}@{pins[name]}"} for name in ("click", "click-man", "cyclonedx-bom", "hatchling")
    ]
    return [{"name": f"requirements/{lock_file.name}", "digest": {"sha256": digest_of(lock_file)}}, *packages]
