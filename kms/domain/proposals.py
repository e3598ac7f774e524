"""Proposals: one document that states a change completely, with the state it builds on. Approvers sign that document.

The signature is over ``attest kms proposal v1``, a zero byte, and the document as canonical JSON (RFC 8785), so a
signature made for another purpose approves nothing. The proposal and key that a signature file names are hints; only
the signature is proof.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final, NoReturn

from attest.encoding import JsonValue, base64_bytes, json_value, rfc3339, rfc3339_text
from attest.errors import ConfigurationError, EvidenceError, SignatureError
from attest.policy import PolicyPrivateKey, algorithm_of, is_signed, key_id, raw_signature
from kms.domain.canonical_json import canonical_json
from kms.domain.people import ChangeKind, Person, Quorum, QuorumRule

SCHEMA: Final = "kms.proposal/1"
APPROVAL_SCHEMA: Final = "kms.proposal-signature/1"
MAX_PROPOSAL_BYTES: Final = 512 * 1024
"""Room for a policy of 256 KiB and the digest of the one that it replaces."""
DEFAULT_LIFETIME: Final = timedelta(hours=72)
MAX_LIFETIME: Final = timedelta(days=30)
_DOMAIN: Final = b"attest kms proposal v1\0"
_MEMBERS: Final = {
    *("schema", "audience", "serial", "kind", "action", "arguments", "state"),
    *("reason", "proposer", "person", "created", "expires"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed change.

    Attributes:
        audience: verifier key of the service.
        serial: its number there, from 1.
        kind: selects the rule that it must meet.
        state: digests of the state that it builds on; a change of that state invalidates the proposal.
        proposer: the actor, as the log names it.
        person: the registered approver who proposes it, or None.
        expires: end of its validity, excluded; UTC.
    """

    audience: str
    serial: int
    kind: ChangeKind
    action: str
    arguments: Mapping[str, JsonValue]
    state: Mapping[str, JsonValue]
    reason: str
    proposer: Mapping[str, JsonValue]
    person: str | None
    created: datetime
    expires: datetime

    @property
    def raw(self) -> bytes:
        """The document, canonical JSON."""
        return canonical_json(
            {
                "schema": SCHEMA,
                "audience": self.audience,
                "serial": self.serial,
                "kind": str(self.kind),
                "action": self.action,
                "arguments": dict(self.arguments),
                "state": dict(self.state),
                "reason": self.reason,
                "proposer": dict(self.proposer),
                "person": self.person,
                "created": rfc3339_text(self.created),
                "expires": rfc3339_text(self.expires),
            }
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the document, hex: its identifier."""
        return sha256(self.raw).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A signature over a proposal; untrusted until it is verified.

    Attributes:
        proposal: the digest of the proposal, hex.
        key_id: of the key, hex.
        signature: 64 bytes for Ed25519, DER for ECDSA.
    """

    proposal: str
    key_id: str
    signature: bytes

    def members(self) -> dict[str, JsonValue]:
        """Return the signature file."""
        signature = b64encode(self.signature).decode()
        return {"schema": APPROVAL_SCHEMA, "proposal": self.proposal, "key_id": self.key_id, "signature": signature}


def read_proposal(raw: bytes) -> Proposal:
    """Parse a proposal in canonical form.

    Raises:
        ConfigurationError: ``proposal-invalid``.
    """
    if len(raw) > MAX_PROPOSAL_BYTES:
        _invalid(f"more than {MAX_PROPOSAL_BYTES} bytes")
    try:
        found = _proposal(json_value(raw, what="proposal"))
    except EvidenceError as exc:
        raise ConfigurationError(f"not a proposal: {exc.message}", code="proposal-invalid") from exc
    if found.raw != raw:
        _invalid("it is not canonical JSON")
    return found


def _proposal(document: JsonValue) -> Proposal:
    if not isinstance(document, dict) or document.keys() != _MEMBERS or document["schema"] != SCHEMA:
        _invalid("wrong members")
    texts = {name: document[name] for name in ("audience", "kind", "action", "reason", "created", "expires")}
    serial, person = document["serial"], document["person"]
    if (
        not all(isinstance(one, str) for one in texts.values())
        or texts["kind"] not in set(ChangeKind)
        or not isinstance(serial, int)
        or not (person is None or isinstance(person, str))
    ):
        _invalid("a member has the wrong type")
    return Proposal(
        audience=str(texts["audience"]),
        serial=serial,
        kind=ChangeKind(str(texts["kind"])),
        action=str(texts["action"]),
        arguments=_object(document["arguments"]),
        state=_object(document["state"]),
        reason=str(texts["reason"]),
        proposer=_object(document["proposer"]),
        person=person,
        created=rfc3339(str(texts["created"]), what="created"),
        expires=rfc3339(str(texts["expires"]), what="expires"),
    )


def _object(value: JsonValue) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        _invalid("a member has the wrong type")
    return value


def approve_with(proposal: Proposal, key: PolicyPrivateKey) -> Approval:
    """Sign a proposal. Only the exported document is needed, so approvers can sign on their own machines."""
    public = key.public_key()
    if algorithm_of(public) is None:
        _invalid("unsupported kind of key")
    message = _DOMAIN + proposal.raw
    return Approval(proposal=proposal.digest, key_id=key_id(public).hex(), signature=raw_signature(key, message))


def read_approval(raw: bytes) -> Approval:
    """Read a signature file.

    Raises:
        ConfigurationError: ``approval-invalid``.
    """
    try:
        document = json_value(raw, what="signature")
        members = document if isinstance(document, dict) else {}
        texts = {name: str(value) for name, value in members.items()}
        signature = base64_bytes(texts.get("signature", ""), what="signature")
    except EvidenceError as exc:
        raise _no_approval(exc.message) from exc
    if texts.keys() != {"schema", "proposal", "key_id", "signature"} or texts["schema"] != APPROVAL_SCHEMA:
        raise _no_approval("wrong members")
    return Approval(proposal=texts["proposal"], key_id=texts["key_id"], signature=signature)


def _no_approval(problem: str) -> ConfigurationError:
    hint = "use a file written by 'kms proposal sign'"
    return ConfigurationError(f"not a signature over a proposal: {problem}", code="approval-invalid", hint=hint)


def signers(proposal: Proposal, approvals: Iterable[Approval], quorum: Quorum) -> tuple[Person, ...]:
    """Return the registered people who signed, each once; signatures of other keys are ignored.

    Raises:
        SignatureError: ``approval-signature-invalid``: a registered key's signature is not over this proposal.
    """
    found: dict[str, Person] = {}
    for one in approvals:
        person = quorum.holder(one.key_id)
        if person is None:
            continue
        if one.proposal != proposal.digest or not is_signed(person.key, one.signature, _DOMAIN + proposal.raw):
            raise SignatureError(
                f"the signature of {person.name} is not over proposal {proposal.serial}",
                code="approval-signature-invalid",
                field=person.name,
                expected=proposal.digest,
                got=one.proposal[:64],
                hint="sign the output of 'kms proposal show --export' with the registered key",
            )
        found[person.name] = person
    return tuple(found.values())


def missing(rule: QuorumRule, proposal: Proposal, people: Iterable[Person]) -> str | None:
    """Describe the approvals that a rule still lacks, or return None if it is met."""
    signed = {one.name for one in people}
    counted = signed & set(rule.people)
    if not rule.proposer_counts:
        if proposal.person is None:
            return f"{rule.kind}: the proposal must name the registered person who proposes it (--as NAME)"
        if proposal.person not in signed:
            return f"{rule.kind}: {proposal.person}, who proposes it, has not signed"
        counted -= {proposal.person}
    if len(counted) < rule.threshold:
        names = ", ".join(sorted(counted)) or "none"
        return f"{rule.kind}: {rule.threshold} of {', '.join(rule.people)}; so far {names}"
    return None


def _invalid(problem: str) -> NoReturn:
    raise ConfigurationError(f"not a proposal: {problem}", code="proposal-invalid")
