"""Bodies of the API, described in the OpenAPI document. Strict, frozen and closed; not the domain types."""

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
    """An empty body."""


class ChallengeModel(Edge):
    """A challenge for fresh evidence."""

    challenge: Annotated[str, Field(description="Opaque token to send with the evidence.", pattern=_BASE64URL)]
    nonce: Annotated[str, Field(description="32 bytes, base64url without padding, for the binding.")]
    audience: Annotated[str, Field(description="Verifier key of the service; compare it with the configured one.")]
    expires_at: Annotated[str, Field(description="Expiry of the challenge (exclusive), RFC 3339.")]


class PassportModel(Edge):
    """A Verifier's Attestation Result about the workload, and a signature by the key that it confirms."""

    ear: Annotated[
        str,
        Field(
            description="The EAR (JWT or CWT) or the token of a service, base64url.", pattern=_BASE64URL, min_length=1
        ),
    ]
    key: Annotated[str, Field(description="Key in the evidence's binding, base64url.", pattern=_BASE64URL)]
    signature: Annotated[str, Field(description="Ed25519 over this request, base64url.", pattern=_BASE64URL)]


def _without_default(schema: dict[str, Any]) -> None:  # Any: a piece of a JSON schema
    schema.pop("default", None)


class ReleaseRequestModel(Edge):
    """Proof of a workload, either evidence or a passport, and the requested keys."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["evidence"]}, {"required": ["passport"]}]})

    challenge: Annotated[str, Field(description="Token of the challenge.", max_length=4 * TOKEN_CHARACTERS)]
    evidence: Annotated[
        dict[str, Any] | list[Any],  # Any: a collection of RFC 9999, which its own strict parser reads
        Field(
            description="Evidence envelope: a conceptual-message collection (RFC 9999) with a binding.",
            default_factory=dict,
        ),
    ]
    passport: Annotated[
        PassportModel | SkipJsonSchema[None],
        Field(description="A Verifier's Attestation Result instead of evidence.", json_schema_extra=_without_default),
    ] = None
    keys: Annotated[
        list[Annotated[str, Field(pattern=KEY_REFERENCE_PATTERN)]],
        Field(
            description="Keys to release, as KEY or TENANT/KEY, without repetition; all or none are released.",
            min_length=1,
            max_length=MAX_KEYS,
            json_schema_extra={"uniqueItems": True},
        ),
    ]

    renews: Annotated[
        list[Annotated[str, Field(pattern=LEASE_ID_PATTERN)]],
        Field(
            description="Leases of these keys to renew, without repetition.",
            min_length=1,
            max_length=MAX_KEYS,
            json_schema_extra={"uniqueItems": True},
        ),
    ] = []

    @field_validator("keys", "renews")
    @classmethod
    def _each_once(cls, value: list[str]) -> list[str]:
        if len(set(value)) != len(value):
            raise ValueError("expected no repetition")
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
    lease_id: Annotated[str, Field(description="Id of the lease, for its renewal.", pattern=LEASE_ID_PATTERN)]
    expires_at: Annotated[str, Field(description="Expiry of the lease (exclusive), RFC 3339.")]


Hashes = Annotated[list[str], Field(description="Hashes of 32 bytes, base64.")]


class ReleaseModel(Edge):
    """Sealed keys, a signed receipt that covers them, and a proof that the decision is in the log."""

    keys: list[SealedKeyModel]
    receipt: Annotated[str, Field(description="C2SP signed note.")]
    entry: Annotated[str, Field(description="Log entry of the decision, base64url.", pattern=_BASE64URL)]
    proof: Annotated[str, Field(description="C2SP tlog-proof that the log contains the entry.")]
    consistency: Annotated[
        Hashes | SkipJsonSchema[None],
        Field(
            description="With log_size: consistency proof from that size to the checkpoint of `proof`.",
            json_schema_extra=_without_default,
        ),
    ] = None


class InclusionModel(Edge):
    """Proof that a tree contains a leaf (RFC 9162)."""

    index: int
    size: int
    proof: Hashes


class ConsistencyModel(Edge):
    """Proof that a tree extends an earlier one (RFC 9162)."""

    old: int
    new: int
    proof: Hashes


class PromptKeyModel(Edge):
    """A prompt key. Check all of it before you trust any part; docs/keys.md explains how."""

    note: Annotated[str, Field(description="C2SP signed note: key, version, algorithm, public key, policy, dates.")]
    entry: Annotated[str, Field(description="Log entry that published it, base64url.", pattern=_BASE64URL)]
    proof: Annotated[str, Field(description="C2SP tlog-proof that the log contains the entry.")]


class PromptKeysModel(Edge):
    """Prompt keys, ordered by tenant and id."""

    prompt_keys: list[PromptKeyModel]
    next: Annotated[str | None, Field(description="Value of 'after' for the next page; null if there are no more.")]


class IdentityModel(Edge):
    """Identity of the service. A client must compare it with its own configuration."""

    origin: str
    verifier_key: Annotated[str, Field(description="name+keyid+base64, as in C2SP signed notes.")]
    protocol: Literal["kms-release/v1"]
    suites: Annotated[list[str], Field(description="HPKE suites with which keys are sealed.")]
    challenge_seconds: int
    simulated: Annotated[bool, Field(description="True if evidence of the simulator is accepted.")]


class AttestationModel(Edge):
    """Statement of the service about itself, evidence that commits to it, and the service's signature over both."""

    statement: Annotated[str, Field(description="Canonical JSON, base64url; see the protocol.", pattern=_BASE64URL)]
    evidence: Annotated[
        dict[str, Any] | list[Any],  # Any: a collection of RFC 9999
        Field(description="Evidence envelope: a conceptual-message collection (RFC 9999) with a binding."),
    ]
    note: Annotated[str, Field(description="C2SP signed note over the request and the response.")]


class HealthModel(Edge):
    """Liveness of the service."""

    status: Literal["ok"]
    simulated: Annotated[bool, Field(description="True if evidence of the simulator is accepted.")]


class ReadinessModel(Edge):
    """Readiness of the service."""

    status: Literal["ok"]
    simulated: Annotated[bool, Field(description="True if evidence of the simulator is accepted.")]
    ready: Annotated[list[str], Field(description="Parts that were checked.")]


class FailedCheckModel(Edge):
    """A check that failed or was not evaluated."""

    id: str
    outcome: str
    expected: Annotated[str | None, Field(description="Present if the key's disclosure includes it.")] = None
    got: Annotated[str | None, Field(description="Present if the key's disclosure includes it.")] = None
    clause: str
    item: str | None


class ProblemModel(Edge):
    """Problem details of a refusal (RFC 9457)."""

    type: Annotated[str, Field(description="tag:attest,2026:kms/ followed by the code.")]
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    detail: str
    code: Annotated[str, Field(description="Stable code of the refusal, for programs.")]
    hint: str | None = None
    field: str | None = None
    expected: str | None = None
    got: str | None = None
    retryable: Annotated[bool, Field(description="The same request may succeed later.")] = False
    failed_checks: list[FailedCheckModel] = []
    simulated: Annotated[bool, Field(description="True if this service accepts evidence of the simulator.")] = False
    request_id: Annotated[str | None, Field(description="As in X-Request-Id and in the operator's log.")] = None
