"""EAR: an Attestation Result as a claims set, typed (draft-ietf-rats-ear-03 over AR4SI).

This module is the model alone; ``ear_codec`` writes and reads it as JSON and CBOR, ``ear_build`` makes one of an
appraisal, ``ear_verify`` verifies a received one. Its constructors hold the rules that are the same in both encodings.

Spec: specs/eat-ear.md, sections 2 to 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from attest.checks import Tier
from attest.results.ear_details import EarDetails

EAR_PROFILE: Final = "tag:ietf.org,2026:rats/ear#03"
LEGACY_PROFILES: Final = (
    "tag:github.com,2023:veraison/ear",
    "tag:ietf.org,2025-07:ear",
    "tag:github.com,2024:confidential-containers/Trustee",
)
"""Read only: their names are turned into those of the current profile."""
NONCE_BYTES: Final = range(8, 65)
"""RFC 9711, section 4.1."""
LATEST_SECONDS: Final = 253402300799
"""9999-12-31T23:59:59Z, the last second that has a date."""
MAX_SUBMODS: Final = 64
MAX_POLICY_IDS: Final = 32
MAX_NONCES: Final = 16
MAX_AUDIENCES: Final = 16
MAX_TEXT_CHARACTERS: Final = 512

VECTOR_LABELS: Final = (
    "instance-identity",
    "configuration",
    "executables",
    "file-system",
    "hardware",
    "runtime-opaque",
    "storage-opaque",
    "sourced-data",
)
"""AR4SI, section 2.3: the position is the label in CBOR."""

_WORST_FIRST = (Tier.CONTRAINDICATED, Tier.NONE, Tier.WARNING, Tier.AFFIRMING)


def tier_of_value(value: int) -> Tier:
    """Return the tier of one value of the vector, -128 to 127 (AR4SI, section 2.3.2)."""
    if -1 <= value <= 1:
        return Tier.NONE
    size = value if value > 0 else -value - 1  # of a private value, -2 to -128, the bounds lie one further out
    if size < 32:
        return Tier.AFFIRMING
    return Tier.WARNING if size < 96 else Tier.CONTRAINDICATED


def worst(tiers: Iterable[Tier]) -> Tier:
    """Return the worst of several tiers; ``none`` counts as not affirming, and so does no tier at all."""
    found = frozenset(tiers)
    return next((tier for tier in _WORST_FIRST if tier in found), Tier.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustVector:
    """AR4SI trustworthiness vector: a signed byte for each claim, or None where nothing is asserted.

    A value of 0 means the same as None, and is kept only to show what was signed.

    Raises:
        ValueError: a value outside a signed byte, or no value at all, which the encoding leaves out instead.
    """

    instance_identity: int | None = None
    configuration: int | None = None
    executables: int | None = None
    file_system: int | None = None
    hardware: int | None = None
    runtime_opaque: int | None = None
    storage_opaque: int | None = None
    sourced_data: int | None = None

    def __post_init__(self) -> None:
        given = dict(self.items())
        if not given:
            raise ValueError("a trustworthiness vector without any claim is left out")
        for label, value in given.items():
            if isinstance(value, bool) or not isinstance(value, int) or not -128 <= value <= 127:
                raise ValueError(f"{label}: expected an integer of -128 to 127")

    @staticmethod
    def of(values: Mapping[str, int]) -> TrustVector:
        """Return the vector of these labels.

        Raises:
            ValueError: an unknown label, or as the constructor.
        """
        if unknown := set(values) - set(VECTOR_LABELS):
            raise ValueError(f"{min(unknown)[:40]!r} is not a claim of the trustworthiness vector")
        return TrustVector(**{label.replace("-", "_"): value for label, value in values.items()})

    def items(self) -> Iterator[tuple[str, int]]:
        """Yield label and value of each claim that is asserted, in the order of the labels."""
        for label, member in zip(VECTOR_LABELS, fields(self), strict=True):
            value: int | None = getattr(self, member.name)
            if value is not None:
                yield label, value

    @property
    def tier(self) -> Tier:
        """The worst tier of the claims. A claim of value 0 is absent; one of -1 or 1 is not affirming."""
        return worst(tier_of_value(value) for _, value in self.items() if value != 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifierId:
    """The Verifier of an appraisal: its developer and build."""

    developer: str
    build: str

    def __post_init__(self) -> None:
        _require_text(self.developer, "ear_verifier_id.developer")
        _require_text(self.build, "ear_verifier_id.build")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarAppraisal:
    """The result for one Attester among several.

    Attributes:
        status: as stated; a reader compares it with ``founded``.
        vector: the basis of the status; None when nothing is asserted.
        profile: of further claims, if they have one.
        nonce: what was found in the Evidence, 8 to 64 bytes each.
        key_attestation: SubjectPublicKeyInfo in DER of a key that this Attester attested, in Veraison's extension.
    """

    status: Tier
    vector: TrustVector | None = None
    policy_ids: tuple[str, ...] = ()
    profile: str | None = None
    nonce: tuple[bytes, ...] = ()
    key_attestation: bytes | None = None

    def __post_init__(self) -> None:
        if len(self.policy_ids) > MAX_POLICY_IDS:
            raise ValueError(f"ear_appraisal_policy_ids: more than {MAX_POLICY_IDS}")
        for policy_id in self.policy_ids:
            _require_text(policy_id, "ear_appraisal_policy_ids")
        if self.profile is not None:
            _require_text(self.profile, "eat_profile")
        _require_nonces(self.nonce)

    @property
    def founded(self) -> Tier:
        """The best tier that the vector supports: without one, none."""
        return Tier.NONE if self.vector is None else self.vector.tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Ear:
    """An EAT Attestation Result, not verified by itself. Times are whole seconds since 1970.

    Attributes:
        issued_at: ``iat``.
        submods: the appraisal of each Attester, at least one.
        profile: as received; under an older one, names were translated.
        status: of all together, as stated; None if absent.
        audience: ``aud``; empty for any Relying Party.
        expires: ``exp``, excluded.
        not_before: ``nbf``, included.
        token_id: ``jti``; as ``cti`` its bytes, of which this is the base64url.
        nonce: of the Relying Party, 8 to 64 bytes each.
        raw_evidence: the evidence; None unless requested.
        ignored: names of claims that were present and are not understood.
    """

    issued_at: int
    verifier: VerifierId
    submods: Mapping[str, EarAppraisal]
    profile: str = EAR_PROFILE
    status: Tier | None = None
    issuer: str | None = None
    subject: str | None = None
    audience: tuple[str, ...] = ()
    expires: int | None = None
    not_before: int | None = None
    token_id: str | None = None
    nonce: tuple[bytes, ...] = ()
    raw_evidence: bytes | None = field(default=None, repr=False)
    details: EarDetails | None = None
    ignored: tuple[str, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.profile not in (EAR_PROFILE, *LEGACY_PROFILES):
            raise ValueError("eat_profile: unknown")
        if not 0 < len(self.submods) <= MAX_SUBMODS:
            raise ValueError(f"submods: expected 1 to {MAX_SUBMODS} appraisals")
        if len(self.audience) > MAX_AUDIENCES:
            raise ValueError(f"aud: more than {MAX_AUDIENCES}")
        for text, path in (
            *((label, "submods") for label in self.submods),
            *((audience, "aud") for audience in self.audience),
            (self.issuer, "iss"),
            (self.subject, "sub"),
            (self.token_id, "jti"),
        ):
            if text is not None:
                _require_text(text, path)
        for moment, path in ((self.issued_at, "iat"), (self.expires, "exp"), (self.not_before, "nbf")):
            if moment is not None and not 0 <= moment <= LATEST_SECONDS:
                raise ValueError(f"{path}: expected whole seconds since 1970")
        _require_nonces(self.nonce)

    @property
    def founded(self) -> Tier:
        """The worst of what every submodule's vector supports and of what it states."""
        return worst(tier for one in self.submods.values() for tier in (one.founded, one.status))


def _require_text(text: str, path: str) -> None:
    if not 0 < len(text) <= MAX_TEXT_CHARACTERS or not text.isprintable():
        raise ValueError(f"{path}: expected 1 to {MAX_TEXT_CHARACTERS} printable characters")


def _require_nonces(nonces: tuple[bytes, ...]) -> None:
    if len(nonces) > MAX_NONCES or not all(len(nonce) in NONCE_BYTES for nonce in nonces):
        expected = f"at most {MAX_NONCES} of {NONCE_BYTES.start} to {NONCE_BYTES.stop - 1} bytes"
        raise ValueError(f"eat_nonce: expected {expected}")
