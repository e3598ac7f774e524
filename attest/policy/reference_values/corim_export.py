"""Our reference documents as CoRIM, for verifiers that read those.

One CoMID for each name, one reference triple for each value, since the values of a name are alternatives. A CoRIM has
one profile, so that a document with values of two vendors becomes two CoRIMs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from attest.endorsements.cose import CosePrivateKey, algorithm_numbers, cose_sign
from attest.policy.reference_values.corim import (
    AMD_MEASUREMENT,
    AMD_PROFILE,
    CONTENT_TYPE,
    DIGEST_BYTES,
    DIGESTS,
    INTEL_OID,
    MEMBER_OF,
    MR_SIGNER,
    MR_TEE,
    REGISTERS,
    TAG_COMID,
    TAG_CORIM,
    TAG_OID,
    TAG_SET,
    TAG_SIGN1,
    TAG_TIME,
    TAG_URI,
)
from attest.policy.reference_values.reference_documents import ReferenceDocument, ReferenceEntry
from attest.policy.reference_values.tagged_cbor import Tagged, TaggedKey, TaggedValue, tagged_bytes

__all__ = ["VENDORS", "ExportedCorim", "export_corim", "sign_corim"]

VENDORS: Final = ("amd", "intel")
_KINDS: Final = {
    "amd": ("snp-measurement",),
    "intel": (
        "tdx-mr-td",
        "tdx-mr-seam",
        *(f"tdx-rtmr{i}" for i in range(4)),
        "sgx-mr-enclave",
        "sgx-mr-signer",
    ),
}
_MODELS: Final = {"snp": "SEV-SNP", "tdx": "TDX", "sgx": "SGX"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedCorim:
    """A CoRIM that is not signed.

    Attributes:
        data: deterministic CBOR, tag 501.
        left_out: what the document says and the CoRIM does not.
    """

    data: bytes
    left_out: tuple[str, ...]


def export_corim(document: ReferenceDocument, vendor: str) -> ExportedCorim:
    """Write the values of one vendor.

    Args:
        document: what is written.
        vendor: one of ``VENDORS``.

    Raises:
        ValueError: the document has no value of that vendor, or none is left once the revoked ones are out.
    """
    revoked = {one.value for one in document.revoked}
    comids: list[TaggedValue] = []
    left_out: list[str] = []
    for name, entry in document.entries.items():
        values = tuple(value for value in entry.values if value not in revoked)
        if entry.kind not in _KINDS[vendor]:
            left_out.append(f"{name}: {entry.kind}")
        elif not values:
            left_out.append(f"{name}: every value is revoked")
        else:
            comids.append(tagged_bytes(_comid(name, entry.kind, values, document.version)))
            left_out += _unsaid(name, entry)
    if not comids:
        raise ValueError(f"document {document.name!r} has no value that {vendor}'s profile can say")
    if not isinstance(document.expires.value, datetime):
        left_out.append("when it was issued, since it has no end")
    if document.revoked:
        left_out.append("the list of revoked values: they are left out of the values")
    profile = Tagged(TAG_URI, AMD_PROFILE) if vendor == "amd" else Tagged(TAG_OID, INTEL_OID)
    corim: dict[TaggedKey, TaggedValue] = {
        0: document.name,
        1: tuple(comids),
        3: profile,
        **_validity(document),
    }
    return ExportedCorim(data=tagged_bytes(Tagged(TAG_CORIM, corim)), left_out=tuple(left_out))


def sign_corim(data: bytes, key: CosePrivateKey, *, signer: str) -> bytes:
    """Sign a CoRIM: COSE_Sign1 around it, with the signer's name for people.

    Raises:
        ValueError: a key of a curve that COSE has no algorithm for here.
    """
    numbers = algorithm_numbers(key.public_key())
    if not numbers:
        raise ValueError("expected an Ed25519, P-256 or P-384 key")
    meta = tagged_bytes({0: {0: signer}})
    protected = tagged_bytes({1: numbers[0], 3: CONTENT_TYPE, 8: meta})
    signature = cose_sign(key, protected=protected, payload=data)
    return tagged_bytes(Tagged(TAG_SIGN1, (protected, {}, data, signature)))


def _unsaid(name: str, entry: ReferenceEntry) -> list[str]:
    found = [f"{name}: its own origin"] if entry.origin is not None else []
    return found if entry.expires is None else [*found, f"{name}: its own end"]


def _validity(document: ReferenceDocument) -> dict[TaggedKey, TaggedValue]:
    """Return the validity in whole seconds, nothing for a document without an end: CoRIM has no begin without one."""
    end = document.expires.value
    return {4: {0: _time(document.issued), 1: _time(end)}} if isinstance(end, datetime) else {}


def _time(moment: datetime) -> Tagged:
    return Tagged(TAG_TIME, int(moment.timestamp()))


def _comid(name: str, kind: str, values: tuple[bytes, ...], version: int) -> Tagged:
    model = _MODELS[kind[:3]] + (" SEAM" if kind == "tdx-mr-seam" else "")
    vendor = "AMD" if kind.startswith("snp") else "Intel"
    environment: TaggedValue = {0: {1: vendor, 2: model}}
    triples: TaggedValue = tuple((environment, (one,)) for one in _measurements(kind, values))
    return Tagged(TAG_COMID, {1: {0: name, 1: version}, 4: {0: triples}})


def _measurements(kind: str, values: tuple[bytes, ...]) -> list[TaggedValue]:
    """Return one measurement for each value; of MRTEE and MRSIGNER one for all, which Intel's profile can say."""
    numbers = {size: number for number, size in DIGEST_BYTES.items()}
    digests: tuple[TaggedValue, ...] = tuple((numbers[len(value)], value) for value in values)
    if kind == "snp-measurement":
        return [{0: AMD_MEASUREMENT, 1: {DIGESTS: (digest,)}} for digest in digests]
    if kind.startswith("tdx-rtmr"):
        return [{1: {REGISTERS: {int(kind[-1]): (digest,)}}} for digest in digests]
    field = MR_SIGNER if kind == "sgx-mr-signer" else MR_TEE
    return [{1: {field: Tagged(TAG_SET, (MEMBER_OF, digests))}}]
