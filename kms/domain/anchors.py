"""Trust anchors as lines of text and as one digest, for the log, for approval and for the service's own evidence."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from attest import TrustAnchors


def anchor_lines(anchors: TrustAnchors) -> tuple[str, ...]:
    """Return a line for each accepted root, each once, sorted."""
    return tuple(sorted({f"{one.role} {one.product} {one.spki_sha256.hex()} {one.name}" for one in anchors.anchors}))


def anchors_digest(lines: Iterable[str]) -> bytes:
    """Return SHA-256 of the sorted lines, 32 bytes."""
    return sha256("".join(f"{line}\n" for line in sorted(lines)).encode()).digest()
