"""The release of a model's key, compared with the manifest of the model and the record of its loading."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from attest.encoding import JsonValue, hex_bytes, json_value, rfc3339
from attest.errors import BindingError
from attest.receipts.map_reader import malformed
from attest.receipts.receipt_file import Part, ReleasePart, present
from attest.release.notes import VerifierKey
from attest.release.receipts import read_receipt
from attest.release.tlog import NO_WITNESSES, LogProof, WitnessPolicy, leaf_hash, verify_logged
from attest.sealed.manifest import SealedManifest

_CLAUSE: Final = "docs/receipts.md, the release"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedRelease:
    """A release that its service signed and logged, of the key that a manifest names.

    Attributes:
        service: verifier key of the service, as the owner's manifest names it.
        policy_digest: SHA-256 of the policy under which the key was released.
        released_at: by the service's clock.
        log_size: of the log whose checkpoint contains the decision.
        simulated: the service accepted evidence of the simulator.
        break_glass: the key was released outside of its policy, with an approval of its own.
    """

    service: VerifierKey
    policy_digest: bytes
    released_at: datetime
    log_size: int
    simulated: bool
    break_glass: bool


def verify_release(
    manifest: SealedManifest,
    *,
    recorded: bytes | None,
    part: Part | None,
    witnesses: WitnessPolicy = NO_WITNESSES,
) -> VerifiedRelease | None:
    """Check the release of the key that a verified manifest names; None for a manifest without a service.

    Args:
        manifest: signed by the owner.
        recorded: SHA-256 of the release in the model record.
        part: the release in the receipt's file; not trusted.
        witnesses: that must have signed the log's checkpoint.

    Raises:
        EndorsementError: ``receipt-part-missing``.
        BindingError: ``receipt-release-missing`` or ``receipt-release-mismatch``.
        EvidenceError: ``receipt-malformed`` or ``hex-invalid``, or as ``LogProof.parse``.
        VerificationError: as ``VerifierKey.verify`` and ``verify_logged``.
    """
    service = manifest.service
    if service is None and recorded is None and part is None:
        return None
    if service is None:
        raise _mismatch("the manifest names no key-release service", "service", "no release", "a release")
    if recorded is None or part is None:
        raise BindingError(
            "the manifest names a key-release service, and the chain has no release of its key",
            code="receipt-release-missing",
            field="release",
            expected=f"a release by {service.name}",
            got="none in the model record" if recorded is None else "none in the file",
            clause=_CLAUSE,
            hint="the machine got the key in another way, or the chain was cut",
        )
    raw = present(part, "release")
    # (1) This release is the one that the machine recorded.
    _require("release", recorded.hex(), sha256(raw).hexdigest())
    release = ReleasePart.parse(raw)
    # (2) The service that the owner named signed it, (3) for the key of the manifest,
    stated = read_receipt(service.verify(release.receipt))
    policy = _policy_of(stated, manifest)
    # (4) and its decision is in the service's log.
    decision = _text(stated, "decision")
    _require("decision", decision, leaf_hash(release.entry).hex())
    _require_decision(release.entry, stated)
    checkpoint = verify_logged(release.entry, LogProof.parse(release.proof), log=service, witnesses=witnesses)
    return VerifiedRelease(
        service=service,
        policy_digest=policy,
        released_at=rfc3339(_text(stated, "released_at"), what="released_at"),
        log_size=checkpoint.size,
        simulated=stated.get("simulated") is not False,
        break_glass=stated.get("break_glass", False) is not False,
    )


def _policy_of(stated: dict[str, JsonValue], manifest: SealedManifest) -> bytes:
    """Return the digest of the policy under which the manifest's key was released."""
    name, listed = manifest.key.name, stated.get("keys")
    wanted = (name.tenant, name.key_id, manifest.key.version)
    keys = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    mine = [one for one in keys if (one.get("tenant"), one.get("key_id"), one.get("version")) == wanted]
    if len(mine) != 1:
        got = ", ".join(f"{one.get('tenant')}/{one.get('key_id')}@{one.get('version')}" for one in keys)
        shown = "{}/{}@{}".format(*wanted)
        raise _mismatch("the release is of another key than the manifest names", "key", shown, got[:200] or "none")
    policy = _text(mine[0], "policy_digest")
    if manifest.policy_digest is not None:
        _require("policy_digest", manifest.policy_digest.hex(), policy)
    return hex_bytes(policy, what="release.policy_digest", length=32)


def _require_decision(entry: bytes, stated: dict[str, JsonValue]) -> None:
    """Require that the log's entry allows the stated release."""
    document = json_value(entry, what="entry of the log")
    members = document if isinstance(document, dict) else {}
    for name, wanted in (("kind", "decision"), ("outcome", "allow"), ("evidence_sha384", stated.get("evidence"))):
        _require(f"entry.{name}", str(wanted), str(members.get(name)))


def _text(members: dict[str, JsonValue], name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise malformed(f"release.{name}", "text", "nothing, or another type")
    return value


def _require(field: str, expected: str, got: str) -> None:
    if not hmac.compare_digest(expected.encode(), got.encode()):
        raise _mismatch(f"the release has another {field}", field, expected, got)


def _mismatch(message: str, field: str, expected: str, got: str) -> BindingError:
    return BindingError(
        message,
        code="receipt-release-mismatch",
        field=f"release.{field}",
        expected=expected[:200],
        got=got[:200],
        clause=_CLAUSE,
        hint="the chain has the release of another key, model or machine",
    )
