"""Bodies of the API, as the OpenAPI document describes them. Strict, frozen, closed; not the domain types."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from attest.release import KEY_ID_PATTERN, KEY_REFERENCE_PATTERN, MAX_KEYS, TENANT_PATTERN
from kms.release.challenges import TOKEN_CHARACTERS

_BASE64URL = r"^[A-Za-z0-9_-]*$"
_HEX_32 = r"^[0-9a-f]{64}$"
LEASE_ID_PATTERN = r"^[0-9a-f]{32}$"


class Edge(BaseModel):
    """Strict, frozen, and closed to unknown members; not a domain type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class EmptyModel(Edge):
    """Nothing is sent."""


class ChallengeModel(Edge):
    """What to prove oneself under."""

    challenge: Annotated[str, Field(description="Token to send back with the evidence; opaque.", pattern=_BASE64URL)]
    nonce: Annotated[str, Field(description="32 bytes, base64url without padding, for the binding.")]
    audience: Annotated[str, Field(description="The service's verifier key; compare it with the one configured.")]
    expires_at: Annotated[str, Field(description="First moment at which the challenge no longer counts, RFC 3339.")]


class PassportModel(Edge):
    """A Verifier's word about the workload, and the signature of the key that it vouches for."""

    ear: Annotated[str, Field(description="The EAR (JWT or CWT), base64url.", pattern=_BASE64URL, min_length=1)]
    key: Annotated[str, Field(description="What the evidence's binding has as key, base64url.", pattern=_BASE64URL)]
    signature: Annotated[str, Field(description="Ed25519 over this request, base64url.", pattern=_BASE64URL)]


def _without_default(schema: dict[str, Any]) -> None:  # Any: a piece of a JSON schema
    schema.pop("default", None)


class ReleaseRequestModel(Edge):
    """A workload's proof, evidence or a passport and never both, and the keys it asks for."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["evidence"]}, {"required": ["passport"]}]})

    challenge: Annotated[str, Field(description="The token as received.", max_length=4 * TOKEN_CHARACTERS)]
    evidence: Annotated[
        dict[str, Any] | list[Any],  # Any: a collection of RFC 9999, which its own strict parser reads
        Field(
            description="Evidence envelope: a conceptual-message collection (RFC 9999) with a binding.",
            default_factory=dict,
        ),
    ]
    passport: Annotated[
        PassportModel | SkipJsonSchema[None],
        Field(description="A Verifier's word in place of evidence.", json_schema_extra=_without_default),
    ] = None
    keys: Annotated[
        list[Annotated[str, Field(pattern=KEY_REFERENCE_PATTERN)]],
        Field(
            description="Keys to release, as KEY or TENANT/KEY, each once; all are released, or none.",
            min_length=1,
            max_length=MAX_KEYS,
            json_schema_extra={"uniqueItems": True},
        ),
    ]

    renews: Annotated[
        list[Annotated[str, Field(pattern=LEASE_ID_PATTERN)]],
        Field(
            description="Leases of these keys that the workload has and wants renewed, each once.",
            min_length=1,
            max_length=MAX_KEYS,
            json_schema_extra={"uniqueItems": True},
        ),
    ] = []

    @field_validator("keys", "renews")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        if len(set(value)) != len(value):
            raise ValueError("each once")
        return value

    @model_validator(mode="after")
    def _one_proof(self) -> Self:
        if ("evidence" in self.model_fields_set) == (self.passport is not None):
            raise ValueError("exactly one of evidence and passport")
        return self


class SealedKeyModel(Edge):
    """One released key, sealed to the workload."""

    tenant: Annotated[str, Field(pattern=TENANT_PATTERN)]
    key_id: Annotated[str, Field(pattern=KEY_ID_PATTERN)]
    version: Annotated[int, Field(ge=1)]
    purpose: str
    policy_digest: Annotated[str, Field(description="SHA-256 of the key's policy, hex.", pattern=_HEX_32)]
    sealed: Annotated[str, Field(description="HPKE enc ‖ ciphertext, base64url.", pattern=_BASE64URL)]
    lease_id: Annotated[str, Field(description="Names the lease, to renew it.", pattern=LEASE_ID_PATTERN)]
    expires_at: Annotated[str, Field(description="First moment at which the lease no longer counts, RFC 3339.")]


Hashes = Annotated[list[str], Field(description="Hashes of 32 bytes, base64.")]


class ReleaseModel(Edge):
    """The sealed keys, a signed receipt that covers them, and the proof that the decision is in the log."""

    keys: list[SealedKeyModel]
    receipt: Annotated[str, Field(description="C2SP signed note.")]
    entry: Annotated[str, Field(description="The decision's entry of the log, base64url.", pattern=_BASE64URL)]
    proof: Annotated[str, Field(description="C2SP tlog-proof: that the log holds the entry.")]
    consistency: Annotated[
        Hashes | SkipJsonSchema[None],
        Field(
            description="With log_size: consistency proof from that size to the checkpoint of `proof`.",
            json_schema_extra=_without_default,
        ),
    ] = None


class InclusionModel(Edge):
    """That a tree holds a leaf (RFC 9162)."""

    index: int
    size: int
    proof: Hashes


class ConsistencyModel(Edge):
    """That a tree extends an older one (RFC 9162)."""

    old: int
    new: int
    proof: Hashes


class PromptKeyModel(Edge):
    """A prompt key. Nothing in it counts before all of it was checked; docs/keys.md says how."""

    note: Annotated[str, Field(description="C2SP signed note: key, version, algorithm, public key, policy, dates.")]
    entry: Annotated[str, Field(description="The log's entry that published it, base64url.", pattern=_BASE64URL)]
    proof: Annotated[str, Field(description="C2SP tlog-proof: that the log holds the entry.")]


class PromptKeysModel(Edge):
    """Prompt keys in the order of tenants and ids."""

    prompt_keys: list[PromptKeyModel]
    next: Annotated[str | None, Field(description="Ask for what comes after this name; null when there is no more.")]


class IdentityModel(Edge):
    """Who the service is. Clients take this from their configuration, never from here alone."""

    origin: str
    verifier_key: Annotated[str, Field(description="name+keyid+base64, as of C2SP signed notes.")]
    protocol: Literal["kms-release/v1"]
    suites: Annotated[list[str], Field(description="HPKE suites that keys are sealed with.")]
    challenge_seconds: int
    simulated: Annotated[bool, Field(description="Whether evidence of the simulator is accepted.")]


class AttestationModel(Edge):
    """What the service says of itself, evidence that commits to it, and its signature over both."""

    statement: Annotated[str, Field(description="Canonical JSON, base64url; see the protocol.", pattern=_BASE64URL)]
    evidence: Annotated[
        dict[str, Any] | list[Any],  # Any: a collection of RFC 9999
        Field(description="Evidence envelope: a conceptual-message collection (RFC 9999) with a binding."),
    ]
    note: Annotated[str, Field(description="C2SP signed note over question and answer.")]


class HealthModel(Edge):
    """How the service is."""

    status: Literal["ok"]
    simulated: Annotated[bool, Field(description="Whether evidence of the simulator is accepted.")]


class ReadinessModel(Edge):
    """That the service can work."""

    status: Literal["ok"]
    simulated: Annotated[bool, Field(description="Whether evidence of the simulator is accepted.")]
    ready: Annotated[list[str], Field(description="What was looked at.")]


class FailedCheckModel(Edge):
    """A check that stands against the workload."""

    id: str
    outcome: str
    expected: Annotated[str | None, Field(description="Told when the key discloses it.")] = None
    got: Annotated[str | None, Field(description="Likewise.")] = None
    clause: str
    item: str | None


class ProblemModel(Edge):
    """Why not (RFC 9457)."""

    type: Annotated[str, Field(description="tag:attest,2026:kms/ and the code.")]
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    detail: str
    code: Annotated[str, Field(description="Stable name of the refusal; match on this.")]
    hint: str | None = None
    field: str | None = None
    expected: str | None = None
    got: str | None = None
    retryable: Annotated[bool, Field(description="The same request may succeed later.")] = False
    failed_checks: list[FailedCheckModel] = []
    simulated: Annotated[bool, Field(description="Whether this service accepts evidence of the simulator.")] = False
    request_id: Annotated[str | None, Field(description="As in X-Request-Id; the operator's log has it too.")] = None
