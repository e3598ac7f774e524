"""The compose hash: SHA-256 of app-compose, an event of RTMR3, and the content of MRCONFIGID.

The guest compares MRCONFIGID, which the host sets, with its own configuration when it boots. So of a dstack guest the
three agree; a difference shows that something was exchanged.
"""

from __future__ import annotations

from hashlib import sha256

from attest.checks import Outcome
from attest.errors import BindingError, VerificationError
from attest.evidence.dstack.facts import DstackFacts
from attest.evidence.keccak import keccak256

_CLAUSE = "dstack compose hash and MRCONFIGID"
_CONFIG_ID_BYTES = 48
_DIGEST_BYTES = 32
_KINDS = {"none": 0, "local-sgx": 1, "kms": 2, "tpm": 3}
"""Numbers of the key providers in MRCONFIGID of version 2."""


def compose_hash_of(mr_config_id: bytes) -> bytes | None:
    """Return the compose hash in MRCONFIGID; only version 1 has it in clear."""
    head, digest, rest = mr_config_id[:1], mr_config_id[1 : 1 + _DIGEST_BYTES], mr_config_id[1 + _DIGEST_BYTES :]
    return digest if head == b"\1" and not any(rest) else None


def judge_compose(
    *, mr_config_id: bytes, facts: DstackFacts, app_composes: tuple[tuple[str, bytes], ...]
) -> tuple[Outcome, str, str]:
    """Compare app-compose, the event of RTMR3 and MRCONFIGID as far as each is there.

    Args:
        mr_config_id: of the quote, 48 bytes.
        facts: of the log; without a log, of none.
        app_composes: app-compose as presented, exact bytes, each with its path.

    Returns:
        The outcome with what was expected and what was found; not evaluated where there is nothing to compare.

    Raises:
        BindingError: ``dstack-compose-mismatch`` or ``dstack-config-id-mismatch``.
        VerificationError: ``dstack-config-id-unknown``, MRCONFIGID is of no known version.

    Spec: specs/dstack.md, section 5.
    """
    stated, configured = facts.compose_hash, compose_hash_of(mr_config_id)
    signed = stated or configured
    if signed is None:
        return Outcome.NOT_EVALUATED, "a compose hash in RTMR3 or MRCONFIGID", "neither has one"
    compared: list[str] = []
    if stated is not None:
        compared.append(_judge_config_id(mr_config_id, stated, facts))
    for path, text in app_composes:
        found = sha256(text).digest()
        if found != signed:
            raise _mismatch("dstack-compose-mismatch", path, signed, found)
        compared.append(f"SHA-256 of {path}")
    return Outcome.PASS, f"compose hash {signed.hex()}", "; ".join(compared) or "MRCONFIGID alone has it"


def _judge_config_id(mr_config_id: bytes, compose_hash: bytes, facts: DstackFacts) -> str:
    """Compare MRCONFIGID with the events, and say what was compared."""
    version = mr_config_id[0]
    if not any(mr_config_id):
        return "the event in RTMR3; MRCONFIGID is not set"
    if version == 3:
        return "the event in RTMR3; MRCONFIGID of version 3 covers a document that is not available"
    if version == 1:
        expected = compose_hash
    elif version == 2:
        expected = _second_version(compose_hash, facts)
    else:
        raise VerificationError(
            f"MRCONFIGID {mr_config_id.hex()} is of an unknown version of dstack",
            code="dstack-config-id-unknown",
            field="MRCONFIGID",
            expected="version 1, 2 or 3, or all zero",
            got=str(version),
            clause=_CLAUSE,
        )
    wanted = (bytes([version]) + expected).ljust(_CONFIG_ID_BYTES, b"\0")
    if mr_config_id != wanted:
        raise _mismatch("dstack-config-id-mismatch", "MRCONFIGID", wanted, mr_config_id)
    return f"the event in RTMR3; MRCONFIGID of version {version}"


def _second_version(compose_hash: bytes, facts: DstackFacts) -> bytes:
    """Return the digest that MRCONFIGID of version 2 has; a fact that the log lacks counts as empty."""
    provider = facts.key_provider
    kind, identity = (0, b"") if provider is None else (_KINDS.get(provider.name, 0), provider.id)
    return keccak256(compose_hash + (facts.app_id or b"") + bytes([kind]) + identity)


def _mismatch(code: str, field: str, expected: bytes, got: bytes) -> BindingError:
    return BindingError(
        f"{field} is not that of the compose hash: expected {expected.hex()}, got {got.hex()}",
        code=code,
        field=field,
        expected=expected.hex(),
        got=got.hex(),
        clause=_CLAUSE,
        hint="the hash is over the exact bytes of app-compose: do not serialise it again",
    )
