"""Data that evidence commits to by a digest: runtime data of verification services, claims of Open Enclave.

The item is canonical CBOR: a map of one or two rules of ``_RULES``, each with the pieces that are hashed one after the
other. The rule says by which digest, and in which field of the evidence; no digest says where a piece ends.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from attest.encoding import CborValue, JsonValue, cbor_bytes, cbor_value
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.malformed import malformed
from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.attachment.record import AttachmentFormat, Attested, VerifiedAttachment
from attest.evidence.freshness import REPORT_DATA_BYTES
from attest.evidence.procedure import Procedure, Step, require_equal
from attest.evidence.snp.evidence import ParsedSnpEvidence

MAX_COMMITTED_BYTES = 1024 * 1024
_CLAUSE = "docs/forms.md"

CommittedData = Mapping[str, tuple[bytes, ...]]
"""Pieces by the name of their rule."""


class _Rule(NamedTuple):
    """One way to commit to data.

    Attributes:
        form: whose way it is.
        pieces: names of what is hashed, in order; each is a claim.
        digest: of all of them.
    """

    form: str
    pieces: tuple[str, ...]
    digest: Callable[[bytes], Any]  # Any: hashlib's own type of a digest has no public name
    in_host_data: bool = False


_RULES: Mapping[str, _Rule] = {
    "maa-runtime-data": _Rule("Microsoft Azure Attestation", ("runtime_data",), hashlib.sha256),
    "maa-init-time-data": _Rule("Microsoft Azure Attestation", ("init_time_data",), hashlib.sha256, in_host_data=True),
    "ita-tdx": _Rule("Intel Trust Authority", ("nonce", "nonce_time", "runtime_data"), hashlib.sha512),
    "ita-sgx": _Rule("Intel Trust Authority", ("nonce", "nonce_time", "runtime_data"), hashlib.sha256),
    "open-enclave": _Rule("Open Enclave", ("custom_claims",), hashlib.sha256),
}
_IDS = {False: "committed_data.report_data", True: "committed_data.host_data"}


def committed_data_bytes(data: CommittedData) -> bytes:
    """Return the item."""
    return cbor_bytes(dict(data))


def parse_committed_data(data: bytes) -> CommittedData:
    """Read the item.

    Raises:
        EvidenceError: ``committed-data-malformed`` or ``cbor-invalid``.
    """
    if len(data) > MAX_COMMITTED_BYTES:
        raise _malformed("data", f"at most {MAX_COMMITTED_BYTES} bytes", f"{len(data)} bytes")
    document = cbor_value(data, what="committed data")
    if not isinstance(document, Mapping) or not document:
        raise _malformed("data", "a map of rules", "another value")
    return {name: _pieces(name, value) for name, value in document.items()}


def _pieces(name: str, value: CborValue) -> tuple[bytes, ...]:
    if name not in _RULES:
        raise _malformed("rule", ", ".join(_RULES), repr(name)[:60])
    members, wanted = value if isinstance(value, list | tuple) else (), len(_RULES[name].pieces)
    pieces = tuple(piece for piece in members if isinstance(piece, bytes))
    if not len(pieces) == len(members) == wanted:
        raise _malformed(name, f"{wanted} byte strings", "another value")
    return pieces


def verify_committed_data(data: CommittedData, attested: Attested, _anchors: TrustAnchors) -> VerifiedAttachment:
    """Require that the evidence commits to the data.

    Raises:
        BindingError: ``committed-data-mismatch``.
        UnsupportedError: ``evidence-unsupported``: init-time data beside another report than SEV-SNP's.
    """
    steps = {name: Step(_IDS[_RULES[name].in_host_data], _CLAUSE) for name in data}
    procedure = Procedure(tuple(steps.values()))
    claims: dict[str, JsonValue] = {}
    for name, pieces in data.items():
        rule = _RULES[name]
        with procedure.step(steps[name]):
            digest: bytes = rule.digest(b"".join(pieces)).digest()
            field, found = _field(rule, attested)
            wanted = digest if rule.in_host_data else digest.ljust(REPORT_DATA_BYTES, b"\0")
            problem = f"{field} does not commit to the given {rule.pieces[-1].replace('_', ' ')}"
            require_equal(wanted, found, problem, code="committed-data-mismatch", field=field)
            procedure.record(("the digest in the way of {}", rule.form), wanted)
        claims |= {"form": rule.form}
        claims |= {piece: value.hex() for piece, value in zip(rule.pieces, pieces, strict=True)}
    return VerifiedAttachment(claims=claims, findings=procedure.finish())


def _field(rule: _Rule, attested: Attested) -> tuple[str, bytes]:
    if not rule.in_host_data:
        return "REPORT_DATA", attested.report_data
    if isinstance(attested.parsed, ParsedSnpEvidence):
        return "HOST_DATA", attested.parsed.report.host_data
    raise UnsupportedError(
        f"init-time data beside evidence of kind {attested.kind}, which this version does not verify",
        code="evidence-unsupported",
        field="initTimeData",
        expected="init-time data beside an SNP report",
        got=attested.kind,
    )


COMMITTED_DATA = AttachmentFormat(name="committed_data", parse=parse_committed_data, verify=verify_committed_data)


def _malformed(field: str, expected: str, got: str) -> EvidenceError:
    code, of = "committed-data-malformed", " of the committed data"
    return malformed(field, expected, got, code=code, of=of, clause=_CLAUSE)
