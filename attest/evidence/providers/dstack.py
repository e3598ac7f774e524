"""Documents of dstack machines: NEAR direct and through its gateway, Venice, NanoGPT, and RedPill's own models.

::

    REPORT_DATA[0:32]  = address, zeros behind it          without tls_cert_fingerprint
                       = SHA-256( address ‖ fingerprint )  with it
    REPORT_DATA[32:64] = nonce
    nonce of each GPU  = nonce

Only the equal nonce ties the GPUs to the CPU: evidence of another machine's GPUs, asked under the same nonce,
would fit.

Spec: specs/providers.md, section 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from attest.encoding import JsonValue, json_value
from attest.endorsements.x509 import Certificate
from attest.evidence.envelope import Evidence, EvidenceItem
from attest.evidence.gpu.forms import nvidia_items
from attest.evidence.providers.comparison import equal, require_gpu_nonces, require_nonce
from attest.evidence.providers.compose_manager import ComposeManager, read_compose_manager
from attest.evidence.providers.document import (
    MAX_MACHINES,
    CommittedKeys,
    Comparison,
    Construction,
    PresentedMachine,
    ProviderDocument,
    Role,
    StatedMachine,
    StepFacts,
    StepName,
)
from attest.evidence.providers.dstack_items import dstack_items
from attest.evidence.providers.ohttp import OhttpKey, read_ohttp_key
from attest.evidence.providers.signing_keys import StatedSigningKey, read_signing_key
from attest.evidence.providers.values import (
    FORM,
    Members,
    certificates_at,
    compact_json,
    given,
    hex_at,
    members_of,
    optional_hex_at,
)

_COPIED = (
    "signing_address",
    "signing_algo",
    "signing_public_key",
    "signing_key",
    "request_nonce",
    "intel_quote",
    "quote",
    "nvidia_payload",
    "event_log",
    "report_data",
    "info",
    "vm_config",
    "tls_cert_fingerprint",
)
"""Members of a machine that have a meaning; a copy that agrees in all of them is the same machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DstackCommitment:
    """Keys, nonce and second quote of one dstack machine.

    Attributes:
        fingerprint: SHA-256 of the SubjectPublicKeyInfo of the machine's TLS key, as stated.
        stated_nonce: ``request_nonce``.
        quotes: ``intel_quote``, and its copy ``quote`` where there is one.
        certificates: the TLS server's chain, as stated.
    """

    key: StatedSigningKey
    fingerprint: bytes | None
    stated_nonce: bytes | None
    quotes: tuple[bytes, ...]
    certificates: tuple[Certificate, ...]
    manager: ComposeManager | None
    ohttp: OhttpKey | None
    gpu_binding: Literal["nonce"] = "nonce"
    key_scope: Literal["app"] = "app"

    @property
    def cautions(self) -> tuple[str, ...]:
        """A manager decides what runs, where there is one."""
        code = "code-reported" if self.manager is not None else "code-by-compose-hash"
        tls = () if self.fingerprint is not None else ("tls-not-bound",)
        return (*tls, "key-of-app", code, "weights-not-proven")

    def construct(self, presented: PresentedMachine, nonce: bytes | None) -> Construction:
        """Return the comparisons."""
        comparisons: dict[StepName, Comparison] = {
            "binding": lambda: self._require_binding(presented),
            "keys": self._require_keys,
            "statements": lambda: self._require_statements(presented),
        }
        if presented.gpu_nonces:
            comparisons["gpus"] = lambda: require_gpu_nonces(
                presented, presented.report_data[32:], "REPORT_DATA[32:64]"
            )
        if nonce is not None:
            comparisons["nonce"] = lambda: require_nonce(nonce, presented.report_data[32:], "REPORT_DATA[32:64]")
        if self.ohttp is not None:
            comparisons["envelope"] = self.ohttp.require_signed
        key = self.key
        return Construction(
            comparisons=comparisons,
            keys=CommittedKeys(
                address=key.address,
                algorithm=key.algorithm,
                public_key=key.public_key,
                tls_spki_sha256=self.fingerprint,
            ),
            claims=self._claims(),
        )

    def _require_binding(self, presented: PresentedMachine) -> StepFacts:
        """Require the first half to be the address, or the hash of address and fingerprint where one is stated."""
        if self.fingerprint is None:
            wanted, construction = self.key.address.ljust(32, b"\0"), "signing_address"
        else:
            wanted = sha256(self.key.address + self.fingerprint).digest()
            construction = "SHA-256 of signing_address and tls_cert_fingerprint"
        return equal(
            wanted,
            presented.report_data[:32],
            f"REPORT_DATA[0:32] is not {construction}",
            code="provider-binding-mismatch",
            field="REPORT_DATA[0:32]",
        )

    def _require_keys(self) -> StepFacts:
        """Require every public key to have the address, and the TLS certificate to have the fingerprint."""
        facts = self.key.require_fitting()
        if not self.certificates or self.fingerprint is None:
            return facts
        return equal(
            self.fingerprint,
            self.certificates[0].spki_sha256,
            "tls_certificate has another key than tls_cert_fingerprint says",
            code="provider-key-mismatch",
            field="tls_certificate",
        )

    def _require_statements(self, presented: PresentedMachine) -> StepFacts:
        """Require the stated nonce, the copy of the quote and the compose manager's list to agree with the quote."""
        compared: list[str] = []
        if self.stated_nonce is not None:
            _agree(presented.report_data[32:], self.stated_nonce, "request_nonce")
            compared.append("request_nonce")
        for copy in self.quotes[1:]:
            _agree(self.quotes[0], copy, "quote")
            compared.append("quote")
        if self.manager is not None and presented.witness is not None:
            self.manager.require(presented.witness, presented)
            compared.append(f"{self.manager.count} actions of the compose manager")
        return StepFacts("no contradiction to the quote", ", ".join(compared) or "nothing repeats the quote")

    def _claims(self) -> Mapping[str, JsonValue]:
        """Return the key configuration that the bound key signed, and that the manager's list was compared."""
        claims: dict[str, JsonValue] = {}
        if self.ohttp is not None and self.ohttp.signing_key == self.key.address:
            claims["ohttp_key_config"] = self.ohttp.key_config.hex()
        if self.manager is not None:
            claims["compose_manager"] = {"actions": self.manager.count}
        return claims


def _agree(wanted: bytes, got: bytes, field: str) -> None:
    equal(wanted, got, f"{field} is not that of the quote", code="provider-statement-mismatch", field=field)


def is_machine(document: JsonValue) -> bool:
    """Recognise the document of one dstack machine, perhaps with copies of it and of others."""
    return isinstance(document, dict) and {"intel_quote", "signing_address"} <= set(document)


def is_gateway(document: JsonValue) -> bool:
    """Recognise the document of a gateway and the machines behind it."""
    return isinstance(document, dict) and {"gateway_attestation", "model_attestations"} <= set(document)


def read_machine(document: JsonValue) -> ProviderDocument:
    """Read the document of one machine and those that it lists beside itself.

    Raises:
        EvidenceError: ``provider-document-malformed`` or ``gpu-device-malformed``.
    """
    top = members_of(document, "document")
    copies = top["all_attestations"] if given(top, "all_attestations") else []
    listed = FORM.array_of(copies, "all_attestations", most=MAX_MACHINES)
    found: dict[bytes, tuple[Role, Members, str]] = {_meaning(top): ("model", top, "document")}
    for number, entry in enumerate(listed):
        path = f"all_attestations[{number}]"
        members = members_of(entry, path)
        found.setdefault(_meaning(members), ("model", members, path))
    return ProviderDocument(
        label="attestation document of a dstack machine (JSON)",
        machines=_numbered(found.values()),
    )


def read_gateway(document: JsonValue) -> ProviderDocument:
    """Read the document of a gateway; errors as ``read_machine``."""
    top = members_of(document, "document")
    gateway = members_of(top["gateway_attestation"], "gateway_attestation")
    of_gateway: Members = {
        name: top[name] for name in ("tls_certificate", "ohttp_key_config", "ohttp_attestation") if name in top
    }
    models = FORM.array_of(top["model_attestations"], "model_attestations", most=MAX_MACHINES - 1)
    if not models:
        raise FORM.malformed("model_attestations", "at least one machine", "none")
    machines: list[tuple[Role, Members, str]] = [("gateway", {**gateway, **of_gateway}, "gateway_attestation")]
    for number, entry in enumerate(models):
        path = f"model_attestations[{number}]"
        machines.append(("model", members_of(entry, path), path))
    return ProviderDocument(
        label="attestation document of a gateway and its machines (JSON)", machines=_numbered(machines)
    )


def _meaning(members: Members) -> bytes:
    """Return all members that have a meaning; as values of Python, 1 and true would be equal."""
    return compact_json([members.get(name) for name in _COPIED], by_name=True)


def _numbered(found: Iterable[tuple[Role, Members, str]]) -> tuple[StatedMachine, ...]:
    return tuple(_machine(str(number), role, members, path) for number, (role, members, path) in enumerate(found))


def _machine(name: str, role: Role, members: Members, path: str) -> StatedMachine:
    quote = hex_at(members, "intel_quote", path, sizes=None)
    copy = optional_hex_at(members, "quote", path, sizes=None)
    manager = read_compose_manager(members, path)
    commitment = DstackCommitment(
        key=read_signing_key(members, path),
        fingerprint=optional_hex_at(members, "tls_cert_fingerprint", path),
        stated_nonce=optional_hex_at(members, "request_nonce", path),
        quotes=(quote,) if copy is None else (quote, copy),
        certificates=certificates_at(members, "tls_certificate", path) if given(members, "tls_certificate") else (),
        manager=manager,
        ohttp=read_ohttp_key(members, path),
    )
    return StatedMachine(
        name=name,
        role=role,
        evidence=Evidence(items=(*dstack_items(quote, members), *_gpus(members, path))),
        commitment=commitment,
        witness=None if manager is None else manager.evidence,
    )


def _gpus(members: Members, path: str) -> Iterable[EvidenceItem]:
    """Return the GPUs, whose evidence is the text of NVIDIA's request form."""
    payload = members.get("nvidia_payload")
    return nvidia_items(
        json_value(payload.encode(), what=f"{path}.nvidia_payload") if isinstance(payload, str) else payload
    )
