"""Aliases of foreign protocols, documents of a Key Broker Service, and settings of vaults' keys, in the replay."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from kms.keys.aliases import ALIAS_ADDED, ALIAS_REMOVED
from kms.keys.kbs_documents import KBS_DOCUMENT_SET
from kms.keys.vault_keys import VAULT_KEY_SET
from kms.operations.replay.noun import Noun, ReplayedEntry, Rule, Subjects
from kms.store import ReadTransaction

ATTESTED = "kbs-attested"
"""An attestation of a guest: it changes nothing that the database holds, except for the challenge that it used."""


class Aliases(Noun):
    """Every alias."""

    check = "aliases"

    def _rules(self) -> Mapping[str, Rule]:
        return {
            ALIAS_ADDED: lambda entry: self.make(f"alias {entry.text('address')}", entry, key=entry.key()),
            ALIAS_REMOVED: lambda entry: self.end(f"alias {entry.text('address')}", entry),
            ATTESTED: lambda _: None,
        }

    def _stored(self, tx: ReadTransaction) -> Subjects:
        return ((f"alias {one.address}", {"key": f"key {one.key}"}) for one in tx.aliases.all())


class KbsDocuments(Noun):
    """Every version of every document."""

    check = "kbs-documents"

    def _rules(self) -> Mapping[str, Rule]:
        return {KBS_DOCUMENT_SET: self._set}

    def _set(self, entry: ReplayedEntry) -> None:
        subject = f"version {entry.number('version')} of the document {entry.text('name')}"
        self.make(subject, entry, digest=entry.text("sha256"))

    def _stored(self, tx: ReadTransaction) -> Subjects:
        for one in tx.kbs_documents.all():
            yield f"version {one.version} of the document {one.name}", {"digest": sha256(one.content).hexdigest()}


class VaultKeys(Noun):
    """Every revision of the settings of a vault's key."""

    check = "vault-keys"

    def _rules(self) -> Mapping[str, Rule]:
        return {VAULT_KEY_SET: self._set}

    def _set(self, entry: ReplayedEntry) -> None:
        subject = f"revision {entry.number('revision')} of the settings of the {entry.key()}"
        self.make(subject, entry, digest=entry.text("sha256"))

    def _stored(self, tx: ReadTransaction) -> Subjects:
        for one in tx.vault_keys.all():
            digest = sha256(one.settings.to_bytes()).hexdigest()
            yield f"revision {one.revision} of the settings of the key {one.name}", {"digest": digest}
