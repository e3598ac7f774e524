"""A new release policy of a vault's key, as a change that the rule for ``key-policy`` governs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from attest.encoding import JsonValue
from attest.policy import canonical_bytes, parse_skr
from kms.domain.errors import KeyConflictError, KeyUnknownError
from kms.domain.keys import KeyName
from kms.domain.people import ChangeKind
from kms.keys.admin import require_key
from kms.keys.vault_keys import VAULT_KEY_SET, vault_key_body
from kms.quorum.change_context import Changing, ProposedChange
from kms.store import ReadTransaction
from kms.store.vault_keys import VaultKey


@dataclass(frozen=True, slots=True, kw_only=True)
class VaultPolicySet(ProposedChange):
    """A new release policy.

    Attributes:
        policy: in its stored form.
        immutable: True if it is the last one.
    """

    name: KeyName
    policy: bytes
    immutable: bool

    kind = ChangeKind.KEY_POLICY
    action = "vault-policy-set"

    def arguments(self) -> dict[str, JsonValue]:
        """Return the policy as a whole, so that its approvers read what they sign."""
        return {"key": str(self.name), "release_policy": self.policy.decode(), "immutable": self.immutable}

    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Build on the release policy in force.

        Raises:
            KeyUnknownError: ``key-unknown``, or ``vault-key-unknown``: it was made in no vault.
            KeyConflictError: ``skr-policy-immutable``.
        """
        kept = self._kept(tx)
        settings = kept.settings
        if settings.immutable and (self.policy != settings.policy or not self.immutable):
            raise KeyConflictError(
                f"the release policy of {self.name} is immutable", code="skr-policy-immutable", field=str(self.name)
            )
        return {
            "revision": kept.revision,
            "release_policy_sha256": settings.policy_digest.hex(),
            "immutable": settings.immutable,
        }

    def apply(self, changing: Changing) -> str:
        """Put the policy into force."""
        kept = self._kept(changing.tx)
        updated = int(changing.at.timestamp())
        settings = replace(kept.settings, policy=self.policy, immutable=self.immutable, updated=updated)
        then = VaultKey(self.name, kept.revision + 1, settings)
        changing.tx.vault_keys.add(then, at=changing.at)
        changing.log(VAULT_KEY_SET, vault_key_body(then))
        return f"the release policy of {self.name} is {settings.policy_digest.hex()}"

    def _kept(self, tx: ReadTransaction) -> VaultKey:
        require_key(tx, self.name)
        kept = tx.vault_keys.newest(self.name)
        if kept is None:
            raise KeyUnknownError(
                f"{self.name} was made in no vault and has no release policy",
                code="vault-key-unknown",
                field=str(self.name),
                hint="'kms key set-policy' changes the policy of every key",
            )
        return kept


def stored_release_policy(text: str) -> bytes:
    """Return a release policy in its stored form; operators beside ``equals`` are accepted.

    Raises:
        AttestError: as ``attest.policy.parse_skr``.
    """
    return canonical_bytes(parse_skr(text.encode(), extended=True))
