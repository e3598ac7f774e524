"""The recorded quotes, by their manifests."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.conftest import vectors_root


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One quote with what its manifest says of it."""

    id: str
    path: str
    encoding: str
    facts: dict[str, Any]

    def read(self, vectors: Path) -> bytes:
        """The quote's bytes."""
        content = (vectors / self.path).read_bytes()
        return bytes.fromhex(content.decode().strip().removeprefix("0x")) if self.encoding == "hex" else content

    @property
    def times(self) -> list[datetime]:
        """Moments at which the chain holds."""
        return [datetime.fromisoformat(e["verify_time"]) for e in self.facts["evaluations"]]


def _manifest(tee: str) -> dict[str, Any]:
    root = vectors_root()
    path = root / tee / "MANIFEST.json" if root is not None else None
    document: dict[str, Any] = json.loads(path.read_text()) if path is not None and path.is_file() else {}
    return document


def recorded() -> list[Recorded]:
    """Every quote of both sets; none where the sets are absent."""
    return [
        Recorded(id=v["id"], path=f"{tee}/{v['file']['path']}", encoding=v["encoding"], facts=v)
        for tee in ("tdx", "sgx")
        for v in _manifest(tee).get("vectors", [])
    ]


def altered() -> list[dict[str, Any]]:
    """The manifests' cases that change bytes, refused or not."""
    return [
        case
        for tee in ("tdx", "sgx")
        for group in ("negatives", "positive_variants")
        for case in _manifest(tee).get(group, [])
        if {"mutate", "truncate", "append"} & set(case)
    ]


RECORDED = recorded()
ALTERED = altered()


def of_id(name: str) -> Recorded:
    return next(vector for vector in RECORDED if vector.id == name)


def apply(case: dict[str, Any], data: bytes) -> bytes:
    """Change a quote as a case says."""
    changed = bytearray(data)
    for change in case.get("mutate", []):
        at = change["offset"]
        if "set" in change:
            changed[at : at + len(change["set"]) // 2] = bytes.fromhex(change["set"])
        else:
            changed[at] ^= int(change["xor"], 16)
    return bytes(changed)[: case.get("truncate", len(changed))] + bytes.fromhex(case.get("append", ""))
