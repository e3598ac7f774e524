"""Evidence of this machine as guests of Confidential Containers write it, for the interface of their data hub.

====== ============================================================================================================
SNP    ``{"attestation_report": base64 of the report, "cert_chain": null}``
TDX    ``{"quote": base64, "cc_eventlog": base64 or null}``
====== ============================================================================================================
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from attest.encoding import JsonValue, base64_bytes
from attest.errors import AgentRefusedError, EvidenceError
from attest.evidence.envelope import (
    MEDIA_EVENT_LOG,
    MEDIA_INTEL_QUOTE,
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
    Evidence,
)
from attest.evidence.snp.structure import REPORT_BYTES

MAX_RUNTIME_DATA_BYTES: Final = 64
_RUNTIME_DATA: Final = "runtime_data"
_ENCODING: Final = "encoding"
Collecting = Callable[[bytes], Evidence]


def no_evidence(data: bytes) -> Evidence:
    """Refuse: there is no machine to collect from (``AgentRefusedError``)."""
    del data
    raise _unsupported("no machine")


def runtime_data_of(query: dict[str, list[str]]) -> bytes:
    """Return the report data that a request states: text, or base64 if ``encoding`` says so.

    Raises:
        AgentRefusedError: ``agent-request-invalid``.
    """
    given, encodings = query.get(_RUNTIME_DATA, []), query.get(_ENCODING, [])
    if len(given) != 1 or encodings not in ([], ["base64"]):
        raise _invalid("one runtime_data, and no encoding but base64")
    try:
        data = base64_bytes(given[0], what=_RUNTIME_DATA) if encodings else given[0].encode()
    except EvidenceError as exc:
        raise _invalid("runtime_data in this encoding") from exc
    if not 0 < len(data) <= MAX_RUNTIME_DATA_BYTES:
        raise _invalid(f"1 to {MAX_RUNTIME_DATA_BYTES} bytes of runtime_data")
    return data


def coco_evidence(evidence: Evidence) -> JsonValue:
    """Return the document for a machine's evidence.

    Raises:
        AgentRefusedError: ``agent-evidence-unsupported``: a machine of another kind.
    """
    by_type = {item.media_type: item.value for item in evidence.items}
    for media_type in (MEDIA_SNP_REPORT, MEDIA_SNP_EXTENDED):
        if media_type in by_type:
            return {"attestation_report": _base64(by_type[media_type][:REPORT_BYTES]), "cert_chain": None}
    if MEDIA_INTEL_QUOTE in by_type:
        log = by_type.get(MEDIA_EVENT_LOG)
        return {"quote": _base64(by_type[MEDIA_INTEL_QUOTE]), "cc_eventlog": None if log is None else _base64(log)}
    raise _unsupported(", ".join(sorted(by_type)))


def _unsupported(got: str) -> AgentRefusedError:
    return AgentRefusedError(
        "this machine gives no evidence that has a form here: only SNP and TDX have",
        code="agent-evidence-unsupported",
        status=HTTPStatus.INTERNAL_SERVER_ERROR,
        got=got,
    )


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _invalid(expected: str) -> AgentRefusedError:
    return AgentRefusedError(
        f"the query has not {expected}", code="agent-request-invalid", status=HTTPStatus.BAD_REQUEST, expected=expected
    )
