"""Evidence of Open Enclave: a header, an SGX quote, and perhaps custom claims. Little-endian.

=======  ===================================================================  =======================================
Version  Header                                                               Content
=======  ===================================================================  =======================================
1        u32 version, u32 type (1 local, 2 remote), u64 size                  quote
3        u32 version, UUID of the format, 4 bytes of alignment, u64 size      quote, then custom claims, to whose
                                                                              SHA-256 REPORTDATA commits
=======  ===================================================================  =======================================

Nothing covers the header. Version 2, reports for the same machine, and other formats are refused by name.

NOTE: no recorded evidence is available: the layout is that of the project's public headers.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from attest.endorsements.malformed import malformed
from attest.errors import UnsupportedError
from attest.evidence.intel.quote import parse_quote
from attest.evidence.reader import ByteReader
from attest.evidence.snp.structure import REPORT_BYTES

_REPORT, _OLDER_EVIDENCE, _EVIDENCE = 1, 2, 3
_LOCAL, _REMOTE = 1, 2
_REPORT_HEAD_BYTES = 16
_EVIDENCE_HEAD_BYTES = 32
_ALIGNMENT_BYTES = 4
_SGX_ECDSA = UUID("a3a21e87-1b4d-4014-b70a-a125d2fbcd8c")
_CLAUSE = "docs/forms.md"


class OpenEnclaveEvidence(NamedTuple):
    """A quote and the custom claims behind it, none of them trusted."""

    quote: bytes
    custom_claims: bytes


def is_open_enclave(data: bytes) -> bool:
    """Recognise a header by its version and by a size that fits what follows."""
    version, kind, size = (int.from_bytes(data[at:end], "little") for at, end in ((0, 4), (4, 8), (8, 16)))
    if version == _REPORT:
        return kind in (_LOCAL, _REMOTE) and size == len(data) - _REPORT_HEAD_BYTES
    size = int.from_bytes(data[24:32], "little")
    known = version in (_OLDER_EVIDENCE, _EVIDENCE) and len(data) != REPORT_BYTES
    return known and len(data) > _EVIDENCE_HEAD_BYTES and size == len(data) - _EVIDENCE_HEAD_BYTES


def read_open_enclave(data: bytes) -> OpenEnclaveEvidence:
    """Read the evidence.

    Raises:
        EvidenceError: ``open-enclave-malformed``, ``truncated``, ``trailing-bytes``, or as ``parse_quote``.
        UnsupportedError: ``evidence-unsupported``, another version or format; and as ``parse_quote``.
    """
    reader = ByteReader(data, what="Open Enclave evidence")
    version = reader.unsigned(4, "version")
    if version == _REPORT:
        _require_remote(reader.unsigned(4, "report type"))
    elif version == _EVIDENCE:
        _require_ecdsa(UUID(bytes=reader.take(16, "format")))
        reader.take(_ALIGNMENT_BYTES, "alignment")
    else:
        raise _unsupported("version", f"{_REPORT} or {_EVIDENCE}", str(version))
    content = reader.take(reader.unsigned(8, "size"), "quote")
    reader.finish()
    quote = parse_quote(content)
    claims = quote.padding
    if version == _REPORT and any(claims):
        raise malformed(
            "report",
            "a quote and nothing after it",
            f"{len(claims)} bytes",
            code="open-enclave-malformed",
            of=" of Open Enclave",
            clause=_CLAUSE,
        )
    return OpenEnclaveEvidence(content[: len(content) - len(claims)], b"" if version == _REPORT else claims)


def _require_remote(kind: int) -> None:
    if kind != _REMOTE:
        raise _unsupported("report type", f"{_REMOTE} (remote)", f"{kind}: a report for the same machine")


def _require_ecdsa(form: UUID) -> None:
    if form != _SGX_ECDSA:
        raise _unsupported("format", f"{_SGX_ECDSA} (SGX ECDSA)", str(form))


def _unsupported(field: str, expected: str, got: str) -> UnsupportedError:
    return UnsupportedError(
        f"Open Enclave evidence with {field} {got}, which this version does not verify",
        code="evidence-unsupported",
        field=field,
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )
