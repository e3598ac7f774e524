"""Encodings of an EAR as JSON claims and as CBOR claims, from one table.

A row names a claim in both: its text in JSON, its number in CBOR. Other differences depend on the kind of value: bytes
are base64url text in JSON; tiers are words in JSON and numbers in CBOR. So a conversion between both keeps every value.

Maps that the draft closes (verifier id, vector, our extension) refuse unknown members; claims that are not understood
elsewhere are ignored and their names kept. Names of older profiles are accepted under an older profile only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, Final

from attest.encoding import JsonValue
from attest.errors import UnsupportedError
from attest.results.cbor import CborClaims
from attest.results.ear import EAR_PROFILE, LEGACY_PROFILES, Ear, EarAppraisal, VerifierId
from attest.results.ear_details import (
    DETAILS_VERSION,
    BoundKey,
    CheckRef,
    EarDetails,
    PolicyRef,
    Relaxation,
    ReliedOn,
    TcbState,
)
from attest.results.ear_kinds import (
    AUDIENCE,
    BOOL,
    BYTES,
    DIGEST,
    INT,
    NONCE,
    TEXT,
    TIER,
    TOKEN_ID,
    VECTOR,
    EarEncoding,
    Row,
    ValueKind,
    list_of,
    malformed,
    read_bytes,
    read_int,
    read_record,
    read_text,
    record,
    write_bytes,
    write_record,
)

DETAILS_NAME: Final = "attest_kms_result"
DETAILS_KEY: Final = -76110
_OLD_POLICY_ID = "ear.appraisal-policy-id"


def ear_to_json(ear: Ear) -> dict[str, JsonValue]:
    """Write the claims for a JWT.

    Raises:
        ValueError: an EAR of an older profile, which is only read.
    """
    _require_current(ear)
    written: dict[str, JsonValue] = write_record(ear, EAR_CLAIMS, EarEncoding(json=True))
    return written


def ear_to_cbor(ear: Ear) -> CborClaims:
    """Write the claims for a CWT.

    Raises:
        ValueError: an EAR of an older profile, or a ``jti`` that is no base64url and so no ``cti``.
    """
    _require_current(ear)
    written: CborClaims = write_record(ear, EAR_CLAIMS, EarEncoding(json=False))
    return written


def ear_from_json(claims: Mapping[str, JsonValue]) -> Ear:
    """Read the claims of a JWT whose signature verified.

    Raises:
        UnsupportedError: ``ear-profile-unknown``.
        EvidenceError: ``ear-malformed``, with the path of what is wrong.
    """
    profile = _profile_of(claims.get("eat_profile"))
    form = EarEncoding(json=True, old=profile != EAR_PROFILE)
    named = _modern(claims, form, "")
    return _read_ear(named, form)


def ear_from_cbor(claims: CborClaims) -> Ear:
    """Read the claims of a CWT whose signature verified.

    Raises:
        UnsupportedError: ``ear-profile-unknown``.
        EvidenceError: ``ear-malformed``, with the path of what is wrong.
    """
    profile = _profile_of(claims.get(265))
    return _read_ear(claims, EarEncoding(json=False, old=profile != EAR_PROFILE))


def _read_ear(claims: Mapping[Any, Any], form: EarEncoding) -> Ear:
    try:
        ear: Ear = read_record(Ear, EAR_CLAIMS, claims, form, "", closed=False)
    except ValueError as exc:  # of the model's constructors
        raise malformed(str(exc)) from exc
    return replace(ear, ignored=tuple(form.ignored))


def _require_current(ear: Ear) -> None:
    if ear.profile != EAR_PROFILE:
        raise ValueError("an EAR of an older profile is read only")


def _profile_of(value: object) -> str:
    if value is None:
        raise malformed("eat_profile: missing")
    if value != EAR_PROFILE and value not in LEGACY_PROFILES:
        raise UnsupportedError(
            "the token's profile is not known",
            code="ear-profile-unknown",
            field="eat_profile",
            expected=f"{EAR_PROFILE}, or one of {', '.join(LEGACY_PROFILES)}",
            got=str(value)[:120],
            clause="draft-ietf-rats-ear-03; docs/tokens.md",
        )
    return str(value)


def _modern(claims: Mapping[str, JsonValue], form: EarEncoding, path: str) -> Mapping[str, JsonValue]:
    """Translate the names of an older profile; refuse them under the current one, and the current ones there."""
    modern: dict[str, JsonValue] = {}
    for name, value in claims.items():
        old = name.startswith("ear.")
        if old != form.old and (old or name in _NAMES):
            raise malformed(f"{path}{name[:60]}: a name of another profile")
        new = name.replace(".", "_").replace("-", "_") if old else name
        if name == _OLD_POLICY_ID:
            new = "ear_appraisal_policy_ids"
        if new in modern:
            raise malformed(f"{path}{name[:60]}: is present under two names")
        modern[new] = [value] if name == _OLD_POLICY_ID else value
    return modern


def _read_key_attestation(value: object, form: EarEncoding, path: str) -> bytes:
    if not isinstance(value, Mapping) or set(value) != {"akpub"}:
        raise malformed(f"{path}: expected exactly akpub")
    return read_bytes(value["akpub"], form, f"{path}.akpub")


def _read_submods(value: object, form: EarEncoding, path: str) -> dict[str, EarAppraisal]:
    if not isinstance(value, Mapping):
        raise malformed(f"{path}: expected a map")
    submods: dict[str, EarAppraisal] = {}
    for label, member in value.items():
        name = read_text(label, form, path)
        here = f"{path}.{name[:60]}."
        claims = member
        if isinstance(member, Mapping):
            claims = _modern(member, form, here) if form.json else _old_policy_id(member, form)
        submods[name] = read_record(EarAppraisal, APPRAISAL_CLAIMS, claims, form, here, closed=False)
    return submods


def _old_policy_id(member: Mapping[Any, Any], form: EarEncoding) -> Mapping[Any, Any]:
    """Read the single policy id of older profiles, which has the number of the list."""
    old = member.get(1003)
    return {**member, 1003: [old]} if form.old and isinstance(old, str) else member


def _read_details(value: object, form: EarEncoding, path: str) -> EarDetails:
    version = value.get("version") if isinstance(value, Mapping) else None
    if read_int(version, form, f"{path}.version") != DETAILS_VERSION:
        raise malformed(f"{path}.version: expected {DETAILS_VERSION}, got {version}")
    details: EarDetails = read_record(EarDetails, _DETAILS, value, form, f"{path}.", closed=True)
    return details


def _own(cls: type[Any], **kinds: ValueKind) -> tuple[Row, ...]:
    """Return the rows of a class of our extension: members have one name everywhere, and a default if not required."""
    required = {one.name for one in fields(cls) if one.default is MISSING}
    return tuple(Row(name, name, name, kind, name in required) for name, kind in kinds.items())


_POLICY = record(PolicyRef, *_own(PolicyRef, name=TEXT, version=INT, digest=DIGEST, references=DIGEST))
_RELIED_ON = record(ReliedOn, *_own(ReliedOn, kind=TEXT, item=TEXT, sha256=DIGEST, begins=INT, ends=INT, number=INT))
_BOUND = record(BoundKey, *_own(BoundKey, context=TEXT, role=TEXT, audience=TEXT, key=DIGEST))
_CHECK = record(CheckRef, *_own(CheckRef, check=TEXT, item=TEXT))
_RELAXED = record(Relaxation, *_own(Relaxation, check=TEXT, reason=TEXT))
_TCB = record(TcbState, *_own(TcbState, item=TEXT, status=TEXT, date=INT, advisories=list_of(TEXT)))
_DETAILS = _own(
    EarDetails,
    version=INT,
    simulated=BOOL,
    affirmed=BOOL,
    freshness=TEXT,
    evidence=DIGEST,
    policies=list_of(_POLICY, least=1),
    endorsements=list_of(_RELIED_ON),
    binding=_BOUND,
    failed=list_of(_CHECK),
    not_evaluated=list_of(_CHECK),
    relaxed=list_of(_RELAXED),
    tcb=list_of(_TCB),
    ignored_items=list_of(TEXT),
)

APPRAISAL_CLAIMS: Final = (
    Row("eat_nonce", 10, "nonce", NONCE),
    Row("eat_profile", 265, "profile", TEXT),
    Row("ear_status", 1000, "status", TIER, required=True),
    Row("ear_trustworthiness_vector", 1001, "vector", VECTOR),
    Row("ear_appraisal_policy_ids", 1003, "policy_ids", list_of(TEXT, least=1)),
    Row(
        "ear_veraison_key_attestation",
        -70002,
        "key_attestation",
        ValueKind(lambda value, form: {"akpub": write_bytes(value, form)}, _read_key_attestation),
    ),
)
"""The claims of a submodule."""

EAR_CLAIMS: Final = (
    Row("eat_profile", 265, "profile", TEXT, required=True),
    Row("iss", 1, "issuer", TEXT),
    Row("sub", 2, "subject", TEXT),
    Row("aud", 3, "audience", AUDIENCE),
    Row("iat", 6, "issued_at", INT, required=True),
    Row("nbf", 5, "not_before", INT),
    Row("exp", 4, "expires", INT),
    Row("jti", 7, "token_id", TOKEN_ID),
    Row("eat_nonce", 10, "nonce", NONCE),
    Row("ear_status", 1000, "status", TIER),
    Row("ear_raw_evidence", 1002, "raw_evidence", BYTES),
    Row(
        "ear_verifier_id",
        1004,
        "verifier",
        record(
            VerifierId,
            Row("developer", 0, "developer", TEXT, required=True),
            Row("build", 1, "build", TEXT, required=True),
        ),
        required=True,
    ),
    Row(
        "submods",
        266,
        "submods",
        ValueKind(
            lambda value, form: {label: write_record(one, APPRAISAL_CLAIMS, form) for label, one in value.items()},
            _read_submods,
        ),
        required=True,
    ),
    Row(
        DETAILS_NAME,
        DETAILS_KEY,
        "details",
        ValueKind(lambda value, form: write_record(value, _DETAILS, form), _read_details),
    ),
)
"""The top-level claims, in the order of writing."""

_NAMES = frozenset(row.name for row in (*EAR_CLAIMS, *APPRAISAL_CLAIMS) if row.name.startswith("ear_"))
"""Names that older profiles write with dots."""
