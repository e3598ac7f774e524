"""Tinfoil's attestation documents, version 2 and 3.

::

    version 3   REPORT_DATA[0:32]  = SHA-256( tls_key_fp ‖ hpke_key ‖ nonce ‖
                                              gpu_evidence_hash ‖ nvswitch_evidence_hash )
                REPORT_DATA[32:64] = 0
                gpu_evidence_hash  = SHA-256( the value of the member gpu, byte for byte )
                nonce of each GPU  = nonce
                signature          = ECDSA by the certificate's key over the document with an empty signature
    version 2   REPORT_DATA        = tls_key_fp ‖ hpke_key, no nonce

The certificate's own issuer is not judged: its key is the machine's because REPORT_DATA says so.

Spec: specs/providers.md, section 4.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from attest.encoding import JsonValue
from attest.endorsements.signatures import load_public_key
from attest.endorsements.x509 import Certificate
from attest.errors import BindingError, SignatureError, UnsupportedError
from attest.evidence.envelope import MEDIA_INTEL_QUOTE, MEDIA_SNP_REPORT, Evidence, EvidenceItem
from attest.evidence.gpu.forms import nvidia_items
from attest.evidence.providers.comparison import equal, require_gpu_nonces, require_nonce
from attest.evidence.providers.document import (
    CommittedKeys,
    Comparison,
    Construction,
    PresentedMachine,
    ProviderDocument,
    StatedMachine,
    StepFacts,
    StepName,
)
from attest.evidence.providers.raw_members import raw_members
from attest.evidence.providers.values import (
    FORM,
    base64_at,
    certificates_at,
    given,
    hex_at,
    members_of,
    optional_hex_at,
    text_at,
)

FORMAT_V3 = "https://tinfoil.sh/predicate/attestation/v3"
FORMATS_V2: Mapping[str, str] = {
    "https://tinfoil.sh/predicate/tdx-guest/v2": MEDIA_INTEL_QUOTE,
    "https://tinfoil.sh/predicate/sev-snp-guest/v2": MEDIA_SNP_REPORT,
}
_PLATFORMS: Mapping[str, str] = {"tdx": MEDIA_INTEL_QUOTE, "sev-snp": MEDIA_SNP_REPORT}
_HASHES: Mapping[str, str] = {"gpu": "gpu_evidence_hash", "nvswitch": "nvswitch_evidence_hash"}
"""Member with the evidence of devices, and the name of its hash among the members of ``report_data``."""
_GZIP_WINDOW = 31
"""zlib's number for a gzip header and trailer."""
MAX_REPORT_BYTES = 64 * 1024
"""Maximum size of a quote with its certificates; recorded ones have 5 kB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TinfoilCommitment:
    """Keys, nonce and hashes of a document of version 3.

    Attributes:
        hashes: stated hash of the evidence of devices by member.
        found: SHA-256 of the exact bytes of each such member.
        signed: the document with an empty signature, as received, without white space around it.
    """

    tls_key_fp: bytes
    hpke_key: bytes
    nonce: bytes
    hashes: Mapping[str, bytes]
    found: Mapping[str, bytes]
    certificates: tuple[Certificate, ...]
    signature: bytes
    signed: bytes
    gpu_binding: Literal["hash"] = "hash"
    key_scope: Literal["machine"] = "machine"
    cautions: tuple[str, ...] = ("measurements-not-compared",)

    def construct(self, presented: PresentedMachine, nonce: bytes | None) -> Construction:
        """Return the comparisons."""
        comparisons: dict[StepName, Comparison] = {
            "binding": lambda: self._require_binding(presented),
            "keys": self._require_certificate,
            "gpus": lambda: self._require_gpus(presented),
            "envelope": self._require_signature,
        }
        if nonce is not None:
            comparisons["nonce"] = lambda: require_nonce(nonce, self.nonce, "report_data.nonce")
        return Construction(
            comparisons=comparisons,
            keys=CommittedKeys(tls_spki_sha256=self.tls_key_fp, hpke_public_key=self.hpke_key),
        )

    def _require_binding(self, presented: PresentedMachine) -> StepFacts:
        """Require REPORT_DATA to be the hash of the members, followed by zeros."""
        members = (self.tls_key_fp, self.hpke_key, self.nonce, *self.hashes.values())
        return equal(
            sha256(b"".join(members)).digest() + bytes(32),
            presented.report_data,
            "REPORT_DATA is not SHA-256 of the members of report_data",
            code="provider-binding-mismatch",
            field="REPORT_DATA",
        )

    def _require_certificate(self) -> StepFacts:
        """Require the certificate's key to be the TLS key that REPORT_DATA commits to."""
        return equal(
            self.tls_key_fp,
            self.certificates[0].spki_sha256,
            "tls_key_fp is not SHA-256 of the certificate's public key",
            code="provider-key-mismatch",
            field="report_data.tls_key_fp",
        )

    def _require_gpus(self, presented: PresentedMachine) -> StepFacts:
        """Require hash and evidence of devices both or neither, equal, and the nonce in each device."""
        for member, name in _HASHES.items():
            stated, found = self.hashes.get(member), self.found.get(member)
            if (stated is None) != (found is None):
                raise BindingError(
                    f"{member} and report_data.{name} belong together, and one of them is missing",
                    code="provider-gpus-uncommitted",
                    field=f"report_data.{name}",
                    expected="both or neither",
                    got=f"{member} alone" if stated is None else f"{name} alone",
                )
            if stated is not None and found is not None:
                equal(
                    stated,
                    found,
                    f"report_data.{name} is not SHA-256 of {member}",
                    code="provider-gpu-hash-mismatch",
                    field=f"report_data.{name}",
                )
        return require_gpu_nonces(presented, self.nonce, "the nonce among the members that REPORT_DATA hashes")

    def _require_signature(self) -> StepFacts:
        """Require the signature of the certificate's key over the document.

        Raises:
            SignatureError: ``provider-signature-invalid``.
        """
        expected = "ECDSA with SHA-256 by the certificate's key over the document with an empty signature"
        key = load_public_key(self.certificates[0].spki)
        try:
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise InvalidSignature  # noqa: TRY301  a key of another kind has made no such signature
            key.verify(self.signature, self.signed, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature as exc:
            raise SignatureError(
                "the signature over the document does not verify with the key of its certificate",
                code="provider-signature-invalid",
                field="signature",
                expected=expected,
                got="a signature that does not verify",
            ) from exc
        return StepFacts(expected, f"verifies with {self.certificates[0].name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TinfoilV2Commitment:
    """A document of version 2, which states nothing beside its report."""

    gpu_binding: Literal["none"] = "none"
    key_scope: Literal["machine"] = "machine"
    cautions: tuple[str, ...] = ("nonce-not-carried", "measurements-not-compared")

    def construct(self, presented: PresentedMachine, nonce: bytes | None) -> Construction:
        """Return the keys that REPORT_DATA itself is; any nonce is refused, because it has none."""
        comparisons: dict[StepName, Comparison] = {}
        if nonce is not None:
            comparisons["nonce"] = lambda: _no_nonce(nonce)
        tls, hpke = presented.report_data[:32], presented.report_data[32:]
        return Construction(comparisons=comparisons, keys=CommittedKeys(tls_spki_sha256=tls, hpke_public_key=hpke))


def _no_nonce(nonce: bytes) -> StepFacts:
    """Refuse a nonce: REPORT_DATA has none, and one that is written beside it is bound to nothing."""
    raise BindingError(
        "a nonce was given, but this form of document has no nonce",
        code="nonce-mismatch",
        field="REPORT_DATA",
        expected=nonce.hex(),
        got="two keys and no nonce",
        hint="request version 3 (?nonce=...), or omit --nonce: freshness is then not evaluated",
    )


def is_tinfoil(document: JsonValue) -> bool:
    """Recognise a document by its format and its report."""
    return isinstance(document, dict) and "format" in document and bool({"body", "report_data"} & set(document))


def read_tinfoil(document: JsonValue, data: bytes) -> ProviderDocument:
    """Read a document.

    Args:
        document: its value.
        data: the bytes that it was read from, over which hashes and signature are.

    Raises:
        EvidenceError: ``provider-document-malformed`` or ``gpu-device-malformed``.
        UnsupportedError: ``evidence-unsupported``, another format or platform.
    """
    members = members_of(document, "document")
    form = text_at(members, "format", "")
    if form == FORMAT_V3:
        return _read_v3(document, data)
    if form not in FORMATS_V2:
        raise _unsupported("format", form, (FORMAT_V3, *FORMATS_V2))
    report = _unpacked(base64_at(members, "body", ""))
    cpu = EvidenceItem(name="cpu", media_type=FORMATS_V2[form], value=report)
    machine = StatedMachine(name="0", role="model", evidence=Evidence(items=(cpu,)), commitment=TinfoilV2Commitment())
    return ProviderDocument(label="tinfoil attestation document, version 2 (JSON)", machines=(machine,))


def _read_v3(document: JsonValue, data: bytes) -> ProviderDocument:
    members = members_of(document, "document")
    stated = members_of(members.get("report_data"), "report_data")
    cpu = members_of(members.get("cpu"), "cpu")
    platform = text_at(cpu, "platform", "cpu")
    if platform not in _PLATFORMS:
        raise _unsupported("cpu.platform", platform, tuple(_PLATFORMS))
    hashed = {member: optional_hex_at(stated, name, "report_data") for member, name in _HASHES.items()}
    places, text = raw_members(data), data.decode("utf-8")
    signature = base64_at(members, "signature", "")
    place = places["signature"]
    commitment = TinfoilCommitment(
        tls_key_fp=hex_at(stated, "tls_key_fp", "report_data"),
        hpke_key=hex_at(stated, "hpke_key", "report_data"),
        nonce=hex_at(stated, "nonce", "report_data"),
        hashes={member: value for member, value in hashed.items() if value is not None},
        found={m: sha256(text[places[m]].encode()).digest() for m in _HASHES if given(members, m)},
        certificates=certificates_at(members, "certificate", ""),
        signature=signature,
        signed=f'{text[: place.start]}""{text[place.stop :]}'.strip().encode(),
    )
    report = EvidenceItem(name="cpu", media_type=_PLATFORMS[platform], value=base64_at(cpu, "report", "cpu"))
    devices = nvidia_items(members.get("gpu"), members.get("nvswitch"))
    machine = StatedMachine(
        name="0",
        role="model" if devices else "router",
        evidence=Evidence(items=(report, *devices)),
        commitment=commitment,
    )
    return ProviderDocument(label="tinfoil attestation document, version 3 (JSON)", machines=(machine,))


def _unpacked(body: bytes) -> bytes:
    """Return what one whole gzip stream holds; no more than ``MAX_REPORT_BYTES`` are ever produced."""
    unpacking = zlib.decompressobj(_GZIP_WINDOW)
    try:
        report = unpacking.decompress(body, MAX_REPORT_BYTES + 1)
    except zlib.error as exc:
        raise FORM.malformed("body", "a gzip stream in base64", "other bytes") from exc
    if len(report) > MAX_REPORT_BYTES or not unpacking.eof or unpacking.unused_data:
        raise FORM.malformed("body", f"one gzip stream of at most {MAX_REPORT_BYTES} bytes, whole and alone", "another")
    return report


def _unsupported(field: str, value: str, known: tuple[str, ...]) -> UnsupportedError:
    return UnsupportedError(
        f"tinfoil's {field} {value[:80]!r} is not verified by this version",
        code="evidence-unsupported",
        check=FORM.check,
        field=field,
        expected=" or ".join(known),
        got=repr(value[:80]),
    )
