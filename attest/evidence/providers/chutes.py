"""Chutes: evidence of instances and their ML-KEM keys, in two answers or, through RedPill and NanoGPT, in one list.

::

    REPORT_DATA[0:32]  = SHA-256( nonce as 64 hex digits ‖ ML-KEM key as base64 text )
    REPORT_DATA[32:64] = SHA-256( SubjectPublicKeyInfo of the instance's certificate )
    nonce of each GPU  = REPORT_DATA[0:32]

A list in one answer names the nonce of the gateway that asked; the certificate is not passed on.

Spec: specs/providers.md, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from attest.encoding import JsonValue
from attest.endorsements.x509 import Certificate
from attest.errors import EndorsementError
from attest.evidence.envelope import MEDIA_INTEL_QUOTE, Evidence, EvidenceItem
from attest.evidence.gpu.forms import nvidia_items
from attest.evidence.providers.comparison import equal, require_gpu_nonces, require_nonce
from attest.evidence.providers.document import (
    MAX_MACHINES,
    MAX_NAME_CHARACTERS,
    CommittedKeys,
    Comparison,
    Construction,
    PresentedMachine,
    ProviderDocument,
    StatedMachine,
    StepFacts,
    StepName,
)
from attest.evidence.providers.values import (
    FORM,
    Members,
    base64_at,
    certificate_at,
    given,
    hex_at,
    members_of,
    text_at,
)

KEM_KEY_BYTES = 1184
"""ML-KEM-768 (FIPS 203)."""
MAX_INSTANCES = 64
_TYPE = "chutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChutesCommitment:
    """Keys and nonce of one instance.

    Attributes:
        kem_text: the ML-KEM key as base64 text, which is hashed as it stands; None if no answer has it.
        stated_nonce: the nonce that the document names, 32 bytes, or None.
        certificate: of the instance's service, or None where it is not passed on.
    """

    kem_text: str | None
    kem_key: bytes | None
    stated_nonce: bytes | None
    certificate: Certificate | None
    gpu_binding: Literal["report-data"] = "report-data"
    key_scope: Literal["machine"] = "machine"
    cautions: tuple[str, ...] = ("tls-not-bound", "code-not-shown", "weights-not-proven")

    def construct(self, presented: PresentedMachine, nonce: bytes | None) -> Construction:
        """Return the comparisons; without a named nonce or the client's, the key is not compared."""
        known = nonce if self.stated_nonce is None else self.stated_nonce
        comparisons: dict[StepName, Comparison] = {
            "keys": lambda: self._require_keys(presented),
        }
        if presented.gpu_nonces:
            comparisons["gpus"] = lambda: require_gpu_nonces(presented, presented.report_data[:32], "REPORT_DATA[0:32]")
        if nonce is not None:
            comparisons["nonce"] = lambda: require_nonce(
                self._committed(nonce), presented.report_data[:32], "REPORT_DATA[0:32]"
            )
        if known is not None:
            comparisons["binding"] = lambda: self._require_binding(presented, known)
        return Construction(
            comparisons=comparisons, keys=CommittedKeys(kem_public_key=None if known is None else self.kem_key)
        )

    def _committed(self, nonce: bytes) -> bytes:
        return sha256(nonce.hex().encode() + self._key_text().encode()).digest()

    def _key_text(self) -> str:
        if self.kem_text is None:
            raise EndorsementError(
                "no ML-KEM key is given for this instance, so REPORT_DATA cannot be computed",
                code="provider-key-missing",
                field="e2e_pubkey",
                expected="the key of this instance",
                got="none",
                hint="give the answer of /e2e/instances beside that of /evidence; leave out instances without a key",
            )
        return self.kem_text

    def _require_binding(self, presented: PresentedMachine, nonce: bytes) -> StepFacts:
        return equal(
            self._committed(nonce),
            presented.report_data[:32],
            "REPORT_DATA[0:32] is not SHA-256 of nonce and ML-KEM key",
            code="provider-binding-mismatch",
            field="REPORT_DATA[0:32]",
        )

    def _require_keys(self, presented: PresentedMachine) -> StepFacts:
        """Require a key, and the certificate that the second half of REPORT_DATA names, where it is passed on."""
        text = self._key_text()
        if self.certificate is None:
            return StepFacts("an ML-KEM key", text)
        return equal(
            self.certificate.spki_sha256,
            presented.report_data[32:],
            "the certificate is not the one that REPORT_DATA names",
            code="provider-key-mismatch",
            field="REPORT_DATA[32:64]",
        )


def is_evidence(document: JsonValue) -> bool:
    """Recognise the answer of ``/evidence``: a list of instances with quotes."""
    if not isinstance(document, dict) or not isinstance(document.get("evidence"), list):
        return False
    return "failed_instance_ids" in document or any(
        isinstance(entry, dict) and {"quote", "gpu_evidence"} <= set(entry) for entry in _list(document["evidence"])
    )


def is_instances(document: JsonValue) -> bool:
    """Recognise the answer of ``/e2e/instances``: a list of instances with keys."""
    return isinstance(document, dict) and any(
        isinstance(entry, dict) and "e2e_pubkey" in entry for entry in _list(document.get("instances"))
    )


def is_list(document: JsonValue) -> bool:
    """Recognise the list that RedPill and NanoGPT answer."""
    return isinstance(document, dict) and document.get("attestation_type") == _TYPE and "all_attestations" in document


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def read_evidence_answer(document: JsonValue, instances: JsonValue) -> ProviderDocument:
    """Read the two answers; ``instances`` is None if there is one only.

    Raises:
        EvidenceError: ``provider-document-malformed`` or ``gpu-device-malformed``.
    """
    keys = {} if instances is None else _keys(instances)
    entries = FORM.array_of(members_of(document, "document")["evidence"], "evidence", most=MAX_MACHINES)
    machines: list[StatedMachine] = []
    for number, entry in enumerate(entries):
        path = f"evidence[{number}]"
        members = members_of(entry, path)
        instance = _instance(members, path)
        commitment = ChutesCommitment(
            kem_text=keys[instance][0] if instance in keys else None,
            kem_key=keys[instance][1] if instance in keys else None,
            stated_nonce=None,
            certificate=certificate_at(members, "certificate", path),
        )
        machines.append(_machine(members, path, "quote", instance, commitment))
    if not machines:
        raise FORM.malformed("evidence", "at least one instance", "none")
    without = set(keys) - {machine.name for machine in machines}
    return ProviderDocument(
        label="Chutes evidence (JSON)",
        machines=tuple(machines),
        cautions=("instances-without-evidence",) if without else (),
    )


def read_list(document: JsonValue) -> ProviderDocument:
    """Read the list of a reseller; errors as ``read_evidence_answer``."""
    top = members_of(document, "document")
    entries = FORM.array_of(top["all_attestations"], "all_attestations", most=MAX_MACHINES)
    machines: list[StatedMachine] = []
    for number, entry in enumerate(entries):
        path = f"all_attestations[{number}]"
        members = members_of(entry, path)
        has_key = given(members, "e2e_pubkey")
        commitment = ChutesCommitment(
            kem_text=text_at(members, "e2e_pubkey", path) if has_key else None,
            kem_key=_kem_key(members, path) if has_key else None,
            stated_nonce=hex_at(members, "nonce", path),
            certificate=None,
        )
        machines.append(_machine(members, path, "intel_quote", _instance(members, path), commitment))
    if not machines:
        raise FORM.malformed("all_attestations", "at least one instance", "none")
    return ProviderDocument(label="list of Chutes instances (JSON)", machines=tuple(machines))


def _keys(document: JsonValue) -> dict[str, tuple[str, bytes]]:
    entries = FORM.array_of(members_of(document, "instances").get("instances"), "instances", most=MAX_INSTANCES)
    keys: dict[str, tuple[str, bytes]] = {}
    for number, entry in enumerate(entries):
        path = f"instances[{number}]"
        members = members_of(entry, path)
        instance = _instance(members, path)
        if instance in keys:
            raise FORM.malformed(f"{path}.instance_id", "each instance once", "the same one again")
        keys[instance] = (text_at(members, "e2e_pubkey", path), _kem_key(members, path))
    return keys


def _instance(members: Members, path: str) -> str:
    instance = text_at(members, "instance_id", path)
    named = 0 < len(instance) <= MAX_NAME_CHARACTERS and instance.isascii() and instance.isprintable()
    if not named or "/" in instance:
        raise FORM.malformed(f"{path}.instance_id", f"1 to {MAX_NAME_CHARACTERS} printable characters", "other text")
    return instance


def _kem_key(members: Members, path: str) -> bytes:
    key = base64_at(members, "e2e_pubkey", path)
    if len(key) != KEM_KEY_BYTES:
        raise FORM.malformed(f"{path}.e2e_pubkey", f"{KEM_KEY_BYTES} bytes, ML-KEM-768", f"{len(key)} bytes")
    return key


def _machine(members: Members, path: str, quote: str, instance: str, commitment: ChutesCommitment) -> StatedMachine:
    cpu = EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=base64_at(members, quote, path))
    items = (cpu, *nvidia_items(members.get("gpu_evidence")))
    return StatedMachine(name=instance, role="model", evidence=Evidence(items=items), commitment=commitment)
