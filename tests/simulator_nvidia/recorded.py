"""Recorded evidence of real devices, for comparing shapes."""

import json
from base64 import b64decode
from pathlib import Path

from attest.endorsements.x509 import Certificate, parse_certificate, pem_blocks


def nvidia(vectors_dir: Path) -> Path:
    return vectors_dir / "nvidia"


def chain(pem: bytes) -> tuple[Certificate, ...]:
    return tuple(parse_certificate(der) for _, der in pem_blocks(pem))


def device(vectors_dir: Path, kind: str, number: int = 0) -> tuple[bytes, tuple[Certificate, ...]]:
    """Return report and chain of a GPU (``gpu``) or switch (``switch``) of the recorded board."""
    path = nvidia(vectors_dir) / "ppcie-hgx-8gpu-4switch" / f"{kind}_evidence.json"
    found = json.loads(path.read_bytes())[number]
    return b64decode(found["evidence"]), chain(b64decode(found["certificate"]))


def report(vectors_dir: Path, name: str) -> bytes:
    return bytes.fromhex((nvidia(vectors_dir) / name / "report.hex").read_text().strip())


def service(vectors_dir: Path, path: str, *members: str | int) -> bytes:
    """Return the report of a GPU that a live service presented; a member that is text is read as JSON."""
    found = json.loads((vectors_dir / "providers" / path).read_bytes())
    for member in members:
        found = found[member]
        if isinstance(found, str) and found.startswith("{"):
            found = json.loads(found)
    return b64decode(found["evidence"])
