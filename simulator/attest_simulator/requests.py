"""Evidence as other projects and verification services are given it: JSON, and the header of Open Enclave."""

from __future__ import annotations

import base64
import json
from hashlib import sha256, sha512
from uuid import UUID

from attest.encoding import JsonValue, base64url_text
from attest_simulator.intel.td import SimulatedEnclave, SimulatedTd

ITA_NONCE = (bytes(range(64)), b"2026-06-01 00:00:00 +0000 UTC", bytes(range(64, 128)))
"""Value, time of issue and signature of a nonce of Intel Trust Authority; the last is not one."""
_SGX_ECDSA = UUID("a3a21e87-1b4d-4014-b70a-a125d2fbcd8c")
_REPORT_DATA_BYTES = 64


def _standard(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _padded(digest: bytes) -> bytes:
    return digest.ljust(_REPORT_DATA_BYTES, b"\0")


def trustee_tdx(quote: bytes, log: bytes | None) -> bytes:
    """Return Trustee's evidence of a TDX guest."""
    return json.dumps({"quote": _standard(quote), "cc_eventlog": None if log is None else _standard(log)}).encode()


def attestation_rs_tdx(quote: bytes, log: bytes | None, *, platform: str = "tdx") -> bytes:
    """Return the evidence of a TDX guest in the outer object of attestation-rs."""
    inner: JsonValue = {"quote": _standard(quote), "cc_eventlog": None if log is None else _standard(log)}
    return json.dumps({"platform": platform, "evidence": inner}).encode()


def maa_request(guest: SimulatedTd | SimulatedEnclave, runtime_data: bytes) -> bytes:
    """Return a request to Microsoft Azure Attestation, with a quote that commits to the runtime data."""
    quote = guest.quote(_padded(sha256(runtime_data).digest()))
    data: JsonValue = {"data": base64url_text(runtime_data), "dataType": "JSON"}
    return json.dumps({"quote": base64url_text(quote), "runtimeData": data, "nonce": "17"}).encode()


def ita_request(guest: SimulatedTd | SimulatedEnclave, runtime_data: bytes) -> bytes:
    """Return a request to Intel Trust Authority, with a quote that commits to nonce and runtime data."""
    value, issued, signature = ITA_NONCE
    message = value + issued + runtime_data
    digest = sha512(message).digest() if isinstance(guest, SimulatedTd) else _padded(sha256(message).digest())
    nonce: JsonValue = {"val": _standard(value), "iat": _standard(issued), "signature": _standard(signature)}
    request: JsonValue = {
        "quote": _standard(guest.quote(digest)),
        "verifier_nonce": nonce,
        "runtime_data": _standard(runtime_data),
        "policy_ids": [],
    }
    return json.dumps(request).encode()


def open_enclave_report(enclave: SimulatedEnclave, report_data: bytes) -> bytes:
    """Return a remote report of Open Enclave, header version 1."""
    quote = enclave.quote(report_data)
    return b"".join((_u32(1), _u32(2), _u64(len(quote)), quote))


def open_enclave_evidence(enclave: SimulatedEnclave, custom_claims: bytes) -> bytes:
    """Return evidence of Open Enclave, header version 3, with custom claims behind the quote."""
    content = enclave.quote(_padded(sha256(custom_claims).digest())) + custom_claims
    return b"".join((_u32(3), _SGX_ECDSA.bytes, bytes(4), _u64(len(content)), content))


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")
