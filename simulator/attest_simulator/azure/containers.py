"""A simulated container group of Azure: an SNP guest in a utility VM, whose measurement a software Microsoft endorses.

Spec: RFC 9052 (COSE_Sign1), RFC 9360 (x5chain), did:x509.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from ssl import DER_cert_to_PEM_cert
from typing import Final, Literal

from cryptography import x509
from cryptography.x509.oid import NameOID

from attest.encoding import CborValue, base64url_text, cbor_bytes
from attest.endorsements.x509 import Extension
from attest_simulator import der
from attest_simulator.azure.keys import rsa_key
from attest_simulator.certificates import CertificateTemplate
from attest_simulator.guest import SimulatedGuest
from attest_simulator.keys import SimulatedRsaKey

UvmRole = Literal["root", "issuer", "signer"]
CborKey = int | str
FEED: Final = "ContainerPlat-AMD-UVM"
PURPOSE: Final = "1.3.6.1.4.1.311.76.59.1.1"
PS384: Final = -38
_COSE_SIGN1 = b"\xd2"
_NAMES: Final[Mapping[UvmRole, str]] = {
    "root": "SIMULATED UVM Root CA",
    "issuer": "SIMULATED UVM Products CA",
    "signer": "SIMULATED ContainerPlat",
}
_BEGINS, _ENDS = datetime(2025, 1, 1, tzinfo=UTC), datetime(2045, 1, 1, tzinfo=UTC)
_SIGNER_ENDS = datetime(2026, 1, 1, tzinfo=UTC)
"""Before the moments of most tests: an endorsement outlives its signer's certificate."""


def uvm_key(role: UvmRole) -> SimulatedRsaKey:
    """Return the key of a role, of 2,048 bits."""
    return rsa_key("UVM", role)


def _name(role: UvmRole) -> bytes:
    attributes = ((NameOID.COUNTRY_NAME, "US"), (NameOID.ORGANIZATION_NAME, "SIMULATION - NOT Microsoft Corporation"))
    names = (*attributes, (NameOID.COMMON_NAME, _NAMES[role]))
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in names]).public_bytes()


def uvm_template(role: UvmRole) -> CertificateTemplate:
    """Return the unsigned certificate of a role."""
    signer = role == "signer"
    purposes = der.sequence(der.object_identifier(PURPOSE), der.object_identifier("1.3.6.1.5.5.7.3.3"))
    authority = (
        Extension(oid="2.5.29.19", critical=True, value=der.sequence(der.TRUE)),
        Extension(oid="2.5.29.15", critical=True, value=der.bit_string(b"\x06", unused_bits=1)),
    )
    return CertificateTemplate(
        serial=len(role),
        issuer=_name("issuer" if signer else "root"),
        subject=_name(role),
        not_before=_BEGINS,
        not_after=_SIGNER_ENDS if signer else _ENDS,
        spki=uvm_key(role).spki,
        extensions=(Extension(oid="2.5.29.37", critical=False, value=purposes),) if signer else authority,
        explicit_trailer=False,
    )


@lru_cache(maxsize=1)
def uvm_chain() -> tuple[bytes, bytes, bytes]:
    """Return signer, issuer and root, DER."""
    return (
        uvm_template("signer").issue(uvm_key("issuer")),
        uvm_template("issuer").issue(uvm_key("root")),
        uvm_template("root").issue(uvm_key("root")),
    )


def did_of(root: bytes, purpose: str = PURPOSE) -> str:
    """Return the identifier of a signer under this root."""
    return f"did:x509:0:sha256:{base64url_text(sha256(root).digest())}::eku:{purpose}"


def uvm_endorsement(
    measurement: bytes,
    *,
    header: Mapping[CborKey, CborValue] | None = None,
    payload: bytes | None = None,
    key: SimulatedRsaKey | None = None,
) -> bytes:
    """Return an endorsement of a measurement; what is given replaces what would be computed.

    Args:
        measurement: of the utility VM, 48 bytes.
        header: members of the protected header that are added or changed.
        payload: the JSON text.
        key: of the signature.
    """
    chain = uvm_chain()
    members: dict[CborKey, CborValue] = {
        1: PS384,
        3: "application/json",
        33: chain,
        "iss": did_of(chain[-1]),
        "feed": FEED,
    }
    protected = _map(members | dict(header or {}))
    stated = {"x-ms-sevsnpvm-guestsvn": "101", "x-ms-sevsnpvm-launchmeasurement": measurement.hex()}
    text = json.dumps(stated).encode() if payload is None else payload
    message = cbor_bytes(("Signature1", protected, b"", text))
    signature = (key or uvm_key("signer")).sign(message)
    return _COSE_SIGN1 + b"\x84" + b"".join((cbor_bytes(protected), b"\xa0", cbor_bytes(text), cbor_bytes(signature)))


def _map(members: Mapping[CborKey, CborValue]) -> bytes:
    """Return a map with numbers and texts as keys, in their order, as encoders of COSE write it."""
    pairs = (cbor_bytes(name) + cbor_bytes(value) for name, value in members.items())
    return bytes([0xA0 | len(members)]) + b"".join(pairs)


def azure_container(guest: SimulatedGuest, report_data: bytes, *, uvm: bytes | None = None) -> bytes:
    """Return the evidence of a container group as its sidecar hands it out."""
    endorsement = uvm_endorsement(guest.measurement) if uvm is None else uvm
    chain = "".join(map(DER_cert_to_PEM_cert, guest.chip.certificates()))
    document = {
        "evidence": base64.b64encode(guest.report(report_data)).decode(),
        "endorsements": base64.b64encode(chain.encode()).decode(),
        "uvm_endorsements": base64.b64encode(endorsement).decode(),
        "endorsed_tcb": "0000000000000000",
    }
    return json.dumps(document).encode()


def maa_snp_request(guest: SimulatedGuest, runtime_data: bytes, *, init_time_data: bytes = b"") -> bytes:
    """Return a request of the sidecar to Microsoft Azure Attestation."""
    chain = "".join(map(DER_cert_to_PEM_cert, guest.chip.certificates()))
    uvm = {"Uvm": [base64url_text(uvm_endorsement(guest.measurement))]}
    report = {
        "SnpReport": base64url_text(guest.report(sha256(runtime_data).digest().ljust(64, b"\0"))),
        "VcekCertChain": base64url_text(chain.encode()),
        "Endorsements": base64url_text(json.dumps(uvm).encode()),
    }
    request = {
        "report": base64.urlsafe_b64encode(json.dumps(report).encode()).decode(),
        "runtimeData": {"data": base64.urlsafe_b64encode(runtime_data).decode(), "dataType": "JSON"},
        "initTimeData": {
            "data": base64.urlsafe_b64encode(init_time_data).decode(),
            "dataType": "JSON" if init_time_data else "",
        },
        "nonce": 17,
    }
    return json.dumps(request).encode()
