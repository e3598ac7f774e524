"""Records of the service in the replay: own keys, key-encryption keys, facts, published keys and reference values."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from attest.encoding import JsonValue, base64url_text, rfc3339_text
from attest.release import PUBLISHED, VerifierKey
from kms.config.configuration import ANCHORS_CHANGED, FACT, SETTINGS_CHANGED
from kms.domain.kek_records import KekState
from kms.keys.import_key import IMPORT_KEY, IMPORT_KEY_CREATED
from kms.keys.token_key import TOKEN_KEY, TOKEN_KEY_CREATED
from kms.operations.backup import RESTORED
from kms.operations.continuity import RESTORED_AT
from kms.operations.guards.setting import GUARD_MADE, ROLLBACK_ACCEPTED
from kms.operations.kek_rotation import KEK_CREATED
from kms.operations.own_keys import CHALLENGE_MAC, IDENTITY, STATE
from kms.operations.replay.noun import Noun, ReplayedEntry, Rule, Subjects
from kms.operations.services import FACT_ORIGIN, INITIALISED
from kms.operations.state import STATE_BEGUN
from kms.quorum.anchors import ANCHORS_APPROVED, APPROVED_ANCHORS
from kms.quorum.keks import KEK_RETIRED, KEK_ROTATED
from kms.references.intake import REFERENCES_ADDED
from kms.store import ReadTransaction

_FACTS: Final = (FACT_ORIGIN, FACT, APPROVED_ANCHORS, RESTORED_AT)


class OwnKeys(Noun):
    """Names of the service's own keys."""

    check = "own-keys"

    def _rules(self) -> Mapping[str, Rule]:
        return {
            INITIALISED: self._initialised,
            STATE_BEGUN: lambda entry: self.make(f"key {STATE[0]}", entry),
            IMPORT_KEY_CREATED: lambda entry: self.make(f"key {IMPORT_KEY}", entry),
            TOKEN_KEY_CREATED: lambda entry: self.make(f"key {TOKEN_KEY}", entry),
        }

    def _initialised(self, entry: ReplayedEntry) -> None:
        """Record the keys named in the entry; an older one names none, and is of a version without state."""
        names = entry.elements("own_keys") if "own_keys" in entry.members else [IDENTITY[0], CHALLENGE_MAC[0]]
        for name in names:
            self.make(f"key {name}", entry)

    def _stored(self, tx: ReadTransaction) -> Subjects:
        return ((f"key {name}", {}) for name in tx.own_secrets.names())


class Facts(Noun):
    """Facts: the service's name, settings, approved trust anchors, and a restoration."""

    check = "configuration"

    def _rules(self) -> Mapping[str, Rule]:
        return {
            INITIALISED: self._initialised,
            SETTINGS_CHANGED: lambda entry: self.make(FACT, entry, digest=entry.text("configuration_sha256")),
            ANCHORS_CHANGED: lambda _: None,  # a detail of the change of settings before it
            ANCHORS_APPROVED: lambda entry: self.make(APPROVED_ANCHORS, entry, value=entry.text("sha256")),
            RESTORED: lambda entry: self.make(RESTORED_AT, entry, **entry.known(text="restored_at")),
            ROLLBACK_ACCEPTED: lambda entry: self.make(RESTORED_AT, entry, text=entry.text("restored_at")),
            GUARD_MADE: lambda _: None,  # guards are outside of the database
        }

    def _initialised(self, entry: ReplayedEntry) -> None:
        self.make(FACT_ORIGIN, entry, text=VerifierKey.parse(entry.text("identity")).name)

    def _stored(self, tx: ReadTransaction) -> Subjects:
        for name in _FACTS:
            value = tx.facts.find(name)
            if value is not None:
                text = value.decode(errors="replace")
                yield name, {"text": text, "value": value.hex(), "digest": sha256(value).hexdigest()}


class Keks(Noun):
    """Every key-encryption key. An older log does not record the creation of the first one."""

    check = "keks"

    def _rules(self) -> Mapping[str, Rule]:
        return {
            INITIALISED: self._initialised,
            KEK_CREATED: lambda entry: self._is(entry, entry.members["kek"], KekState.READY),
            KEK_ROTATED: self._rotated,
            KEK_RETIRED: lambda entry: self._is(entry, entry.members["kek"], KekState.RETIRED),
        }

    def _initialised(self, entry: ReplayedEntry) -> None:
        self.incomplete = "kek" not in entry.members
        if not self.incomplete:
            self._is(entry, entry.members["kek"], KekState.ACTIVE)

    def _rotated(self, entry: ReplayedEntry) -> None:
        if entry.text("phase") == "end":
            self._is(entry, entry.members["kek"], KekState.ACTIVE)
            return
        for one in entry.elements("before"):
            self._is(entry, one, KekState.LEAVING)
        self._is(entry, entry.members["kek"], KekState.ENTERING)

    def _is(self, entry: ReplayedEntry, kek: JsonValue, state: KekState) -> None:
        if not isinstance(kek, dict):
            raise ValueError("it names no key-encryption key")  # noqa: TRY004  the entry is wrong, not the program
        self.make(f"key-encryption key {kek.get('id')}", entry, backend=kek.get("backend"), state=str(state))

    def _stored(self, tx: ReadTransaction) -> Subjects:
        for one in tx.keks.all():
            yield f"key-encryption key {one.id.hex()}", {"backend": str(one.backend), "state": str(one.state)}


class PublishedKeys(Noun):
    """The published half of every version of every prompt key, by policy."""

    check = "prompt-keys"

    def _rules(self) -> Mapping[str, Rule]:
        return {PUBLISHED: self._published}

    def _published(self, entry: ReplayedEntry) -> None:
        self.make(
            f"published half of {entry.key()}@{entry.number('version')} for the policy {entry.text('policy_sha256')}",
            entry,
            digest=_digest(entry.text("public_key")),
            algorithm=entry.text("algorithm"),
            published_at=entry.text("not_before"),
            entry=entry.seq,
        )

    def _stored(self, tx: ReadTransaction) -> Subjects:
        for one in tx.prompt_keys.all():
            yield (
                f"published half of key {one.name}@{one.version} for the policy {one.policy_digest.hex()}",
                {
                    "digest": _digest(base64url_text(one.public_key)),
                    "algorithm": one.algorithm,
                    "published_at": rfc3339_text(one.published_at),
                    "entry": one.seq,
                },
            )


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


class ReferenceDocuments(Noun):
    """Every document of reference values with the keys that signed it."""

    check = "references"

    def _rules(self) -> Mapping[str, Rule]:
        return {REFERENCES_ADDED: self._added}

    def _added(self, entry: ReplayedEntry) -> None:
        for one in entry.elements("references"):
            if not isinstance(one, dict):
                raise ValueError("it names no document")  # noqa: TRY004  the entry is wrong, not the program
            subject = f"document {one.get('sha256')}"
            before = self.said(subject, "signers")
            signers = {*map(str, entry.elements("signers")), *map(str, before if isinstance(before, list) else ())}
            self.make(subject, entry, name=one.get("name"), version=one.get("version"), signers=[*sorted(signers)])

    def _stored(self, tx: ReadTransaction) -> Subjects:
        for name in tx.references.names():
            for version, digest in tx.references.versions(name):
                found = tx.references.find(digest)
                signers = () if found is None else (one.key_id.hex() for one in found.proofs)
                yield f"document {digest.hex()}", {"name": name, "version": version, "signers": [*sorted(signers)]}
