"""Keys of vaults: made, imported, shown, changed, rotated and deleted.

Keys that were made here are released by this protocol alone, under the vault's policy. A key that an operator gave an
address, perhaps one of another vault, is shown and released, and changed by ``kms key`` only.

Spec: specs/azure-skr.md, sections 4 and 6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Final

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.policy import decode_policy, outline_skr, read_document
from attest.release import KeyName, KeyReference
from kms.api.skr.bodies import AskedAttributes, read_attributes, read_object
from kms.api.skr.bundles import VaultView, is_shown
from kms.api.skr.errors import SkrRefusal, bad_parameter, no_key
from kms.api.skr.identifiers import reference_of
from kms.api.skr.material import algorithm_of, read_private_key
from kms.config.skr import SkrSettings, Vault
from kms.domain.actors import Actor
from kms.domain.aliases import Alias, vault_address
from kms.domain.errors import QuorumRequiredError
from kms.domain.kek import RandomBytes
from kms.domain.keys import KeyRecord
from kms.domain.material import new_material
from kms.domain.people import ChangeKind
from kms.domain.vault_keys import VaultKeySettings
from kms.domain.vault_material import ImportedKey
from kms.domain.wires import Wire
from kms.keys.admin import KEY_CREATED, KEY_IMPORTED, add_key, require_key, set_version_enabled_in
from kms.keys.aliases import add_alias_in, key_of, remove_alias_in
from kms.keys.destruction import schedule_destruction
from kms.keys.vault_keys import public_half_of, set_vault_key_in
from kms.references.resolution import stored_policy
from kms.release.services import Services
from kms.store import ReadTransaction, WriteTransaction

_CREATE: Final = frozenset(
    {"kty", "key_size", "crv", "public_exponent", "key_ops", "attributes", "tags", "release_policy"}
)
_IMPORT: Final = frozenset({"key", "hsm", "Hsm", "attributes", "tags", "release_policy"})
_UPDATE: Final = frozenset({"key_ops", "attributes", "tags", "release_policy"})
_ODD: Final = re.compile(r"[^a-z0-9-]")
_SHOWN_CHARACTERS: Final = 96
_SUFFIX_BYTES: Final = 4
_CACHED: Final = 1024
_SKR_ONLY: Final = frozenset({Wire.SKR})


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKey:
    """A version of a key of a vault.

    Attributes:
        revision: of its settings; None: it was made in no vault, and its settings are what is shown of it.
        is_made_here: True if it was made at this address.
    """

    record: KeyRecord
    settings: VaultKeySettings
    revision: int | None
    is_made_here: bool

    @property
    def has_release_policy(self) -> bool:
        """True if its settings limit releases: it was made in a vault."""
        return self.revision is not None

    def is_current(self, tx: ReadTransaction) -> bool:
        """Return whether its settings are in force."""
        kept = tx.vault_keys.newest(self.record.name)
        return self.revision == (None if kept is None else kept.revision)


class VaultKeys:
    """Keys of every vault.

    Args:
        destroy_after: time for which an operator can restore a deleted key.
    """

    def __init__(
        self, services: Services, settings: SkrSettings, *, random: RandomBytes, destroy_after: timedelta
    ) -> None:
        self._services = services
        self._settings = settings
        self._random = random
        self._destroy_after = destroy_after
        self._public: dict[tuple[KeyName, int], dict[str, str]] = {}

    # -- reading

    def find(self, vault: Vault, name: str, version: str | None) -> FoundKey:
        """Return a key, or a version of it.

        Raises:
            SkrRefusal: 404.
        """
        with self._services.store.reading() as tx:
            return self._find(tx, vault, name, version)

    def show(self, vault: Vault, name: str, version: str | None) -> VaultView:
        """Return a key, or a version of it, as it is shown; as ``find``."""
        return self.view(vault, name, self.find(vault, name, version))

    def view(self, vault: Vault, name: str, found: FoundKey) -> VaultView:
        """Return a key that was found, as it is shown."""
        return VaultView(
            host=vault.host,
            name=name,
            record=found.record,
            settings=found.settings,
            public=partial(self._public_of, found.record),
            destroy_delay_seconds=int(self._destroy_after.total_seconds()),
        )

    def record(self, reference: KeyReference) -> KeyRecord:
        """Return a version that exists."""
        with self._services.store.reading() as tx:
            return require_key(tx, reference)

    def keys(self, vault: Vault) -> Iterator[dict[str, JsonValue]]:
        """Yield the entries of all keys of a vault."""
        start = vault_address(vault.host, "")
        with self._services.store.reading() as tx:
            names = [one.address.removeprefix(start) for one in tx.aliases.all() if one.address.startswith(start)]
        for name in names:
            try:
                view = self.show(vault, name, None)
            except SkrRefusal:
                continue
            yield view.item(versioned=False)

    def versions(self, vault: Vault, name: str) -> Iterator[dict[str, JsonValue]]:
        """Yield the entries of all versions of a key.

        Raises:
            SkrRefusal: 404.
        """
        found = self.find(vault, name, None)
        with self._services.store.reading() as tx:
            records = tx.keys.versions(found.record.name)
        for record in records:
            if record.destroy_at is None:
                yield self.view(vault, name, replace(found, record=record)).item(versioned=True)

    def _find(self, tx: ReadTransaction, vault: Vault, name: str, version: str | None) -> FoundKey:
        address = vault_address(vault.host, name)
        key = key_of(tx, address)
        reference = None if key is None else reference_of(key, version)
        record = None if reference is None else tx.keys.find(reference)
        if record is None or record.destroy_at is not None or not is_shown(record):
            raise no_key(name)
        kept = tx.vault_keys.newest(record.name)
        settings = self._outline(tx, record, address) if kept is None else kept.settings
        return FoundKey(
            record=record,
            settings=settings,
            revision=None if kept is None else kept.revision,
            is_made_here=kept is not None and settings.address == address,
        )

    def _outline(self, tx: ReadTransaction, record: KeyRecord, address: str) -> VaultKeySettings:
        """Return what is shown of a key without settings of a vault: its policy, as far as it can be written."""
        document, _ = stored_policy(tx, record.policy_digest)
        guard = decode_policy(read_document(document), incomplete=True)
        urls = [one.url for one in self._settings.authorities]
        return VaultKeySettings(policy=outline_skr(guard, urls), address=address)

    def _public_of(self, record: KeyRecord) -> dict[str, str]:
        """Return the public members; those of a version never change."""
        key = (record.name, record.version)
        found = self._public.get(key)
        if found is None:
            found = public_half_of(self._services.kek, record)
            if len(self._public) >= _CACHED:
                self._public.clear()
            self._public[key] = found
        return found

    # -- making

    def create(self, vault: Vault, name: str, body: bytes, *, actor: Actor) -> VaultView:
        """Make a key.

        Raises:
            SkrRefusal: 400, 409.
            AttestError: as ``add_key``.
        """
        members = read_object(body, _CREATE)
        asked = read_attributes(members, members.get("key_ops"), extended=self._settings.extended_policies)
        algorithm = algorithm_of(members)
        _require_releasable(asked)
        made = ImportedKey(new_material(algorithm, random=self._random), algorithm)
        return self._add(vault, name, made, asked, kind=KEY_CREATED, actor=actor)

    def import_key(self, vault: Vault, name: str, body: bytes, *, actor: Actor) -> VaultView:
        """Import a key; as ``create``."""
        members = read_object(body, _IMPORT)
        key = members.get("key")
        operations = key.get("key_ops") if isinstance(key, dict) else None
        asked = read_attributes(members, operations, extended=self._settings.extended_policies)
        _require_releasable(asked)
        return self._add(vault, name, read_private_key(key), asked, kind=KEY_IMPORTED, actor=actor)

    def _add(
        self, vault: Vault, name: str, made: ImportedKey, asked: AskedAttributes, *, kind: str, actor: Actor
    ) -> VaultView:
        services, at = self._services, self._services.clock()
        if vault.policy is None:
            raise _conflict("no policy is configured that could guard keys of this vault", "skr-policy-missing")
        key = KeyName(tenant=vault.tenant, key_id=self._key_id(name))
        alias = Alias(address=vault_address(vault.host, name), key=key)
        settings = _changed(VaultKeySettings(policy=b"", address=alias.address), asked, at)

        def also(tx: WriteTransaction) -> None:
            _require_free(tx, alias, actor=actor, at=at)
            add_alias_in(tx, alias, actor=actor, at=at)
            set_vault_key_in(tx, key, settings, actor=actor, at=at)
            if asked.enabled is False:
                set_version_enabled_in(tx, require_key(tx, key), enabled=False, actor=actor, at=at)

        try:
            add_key(
                services.store,
                services.kek,
                name=key,
                material=made.material,
                policy=vault.policy,
                kind=kind,
                actor=actor,
                at=at,
                algorithm=made.algorithm,
                via=_SKR_ONLY,
                also=also,
            )
        except ConfigurationError as exc:
            raise _conflict(f"the policy of this vault cannot guard a key: {exc.message}", exc.code) from exc
        return self.show(vault, name, None)

    def _key_id(self, name: str) -> str:
        """Return a new id that shows the name; a deleted key and its successor have different ones."""
        shown = _ODD.sub("-", name.lower())[:_SHOWN_CHARACTERS]
        return f"skr.{shown}-{self._random(_SUFFIX_BYTES).hex()}"

    # -- changing

    def update(self, vault: Vault, name: str, version: str | None, body: bytes, *, actor: Actor) -> VaultView:
        """Change attributes, operations and tags of a key, and its policy unless that is immutable.

        All of them are those of every version, except ``enabled``.

        Raises:
            SkrRefusal: 400, 404, 409.
            QuorumRequiredError: the rule for ``key-policy`` governs the release policy.
        """
        members = read_object(body, _UPDATE)
        asked = read_attributes(members, members.get("key_ops"), extended=self._settings.extended_policies)
        if asked.exportable is False:
            raise _not_exportable()
        at = self._services.clock()
        with self._services.store.writing() as tx:
            found = self._require_made_here(tx, vault, name, version)
            record = found.record
            then = _changed(found.settings, asked, at)
            if (then.policy, then.immutable) != (found.settings.policy, found.settings.immutable):
                _require_no_quorum(tx, record.name)
            set_vault_key_in(tx, record.name, then, actor=actor, at=at)
            if asked.enabled is not None and asked.enabled is not record.version_enabled:
                set_version_enabled_in(tx, record, enabled=asked.enabled, actor=actor, at=at)
        return self.show(vault, name, version)

    def delete(self, vault: Vault, name: str, *, actor: Actor) -> VaultView:
        """Schedule the destruction of a key; an operator can restore it until then.

        Raises:
            SkrRefusal: 404, 409.
        """
        store, at = self._services.store, self._services.clock()
        view = self.show(vault, name, None)
        record = self.made_here(vault, name)
        after = self._destroy_after
        schedule_destruction(store, KeyReference(name=record.name), after=after, minimum=after, actor=actor, at=at)
        return view

    def made_here(self, vault: Vault, name: str) -> KeyRecord:
        """Return a key that callers may change.

        Raises:
            SkrRefusal: 404; 409 ``skr-key-not-of-vault``, an operator gave it the address.
        """
        with self._services.store.reading() as tx:
            return self._require_made_here(tx, vault, name, None).record

    def _require_made_here(self, tx: ReadTransaction, vault: Vault, name: str, version: str | None) -> FoundKey:
        found = self._find(tx, vault, name, version)
        if not found.is_made_here:
            text = f"{name} is an alias of a key that was made elsewhere, which 'kms key' changes"
            raise _conflict(text, "skr-key-not-of-vault")
        return found


def _require_releasable(asked: AskedAttributes) -> None:
    """Require an exportable key with a policy: a vault has no use for others."""
    if asked.exportable is not True:
        raise _not_exportable()
    if asked.policy is None:
        raise bad_parameter("Exportable keys must have release policy", "skr-policy-required")


def _require_no_quorum(tx: WriteTransaction, name: KeyName) -> None:
    """Require that one caller may change a release policy: it decides on releases, as the policy of a key does."""
    for rule in tx.quorum.current().demanded(ChangeKind.KEY_POLICY):
        raise QuorumRequiredError(
            f"a change of a release policy requires {rule.threshold} of {', '.join(rule.people)}; an administrator "
            f"proposes it for {name} with 'kms proposal create vault-policy-set'",
            code="quorum-required",
            field=str(rule.kind),
            expected=f"{rule.threshold} signatures over a proposal",
        )


def _require_free(tx: WriteTransaction, alias: Alias, *, actor: Actor, at: datetime) -> None:
    """Require that a vault has no key of this name; the address of a destroyed one is free again."""
    before = key_of(tx, alias.address)
    if before is None:
        return
    record = require_key(tx, before)
    if record.is_destroyed:
        remove_alias_in(tx, alias.address, actor=actor, at=at)
    elif record.destroy_at is not None:
        text = "a key with this name is deleted but recoverable; its name cannot be used until it is destroyed"
        raise _conflict(text, "skr-key-deleted")
    else:
        raise _conflict("there is a key with this name; rotate it to make its next version", "skr-key-exists")


def _changed(known: VaultKeySettings, asked: AskedAttributes, at: datetime) -> VaultKeySettings:
    """Return settings with the changes that a request asks for.

    Raises:
        SkrRefusal: 400 ``skr-policy-immutable``, or the key would end before it begins.
    """
    policy = asked.policy
    if policy is not None and known.immutable and (policy.content != known.policy or not policy.immutable):
        raise bad_parameter("the release policy of this key is immutable", "skr-policy-immutable")
    begins = known.not_before if asked.not_before is None else asked.not_before
    ends = known.expires if asked.expires is None else asked.expires
    if begins is not None and ends is not None and begins >= ends:
        raise bad_parameter("attributes: nbf is not before exp", "skr-body-invalid")
    return replace(
        known,
        policy=known.policy if policy is None else policy.content,
        immutable=known.immutable or (policy is not None and policy.immutable),
        operations=known.operations if asked.operations is None else asked.operations,
        tags=known.tags if asked.tags is None else asked.tags,
        not_before=begins,
        expires=ends,
        updated=int(at.timestamp()),
    )


def _not_exportable() -> SkrRefusal:
    return bad_parameter("keys of this vault are exportable: attributes.exportable is true", "skr-not-exportable")


def _conflict(text: str, inner: str) -> SkrRefusal:
    return SkrRefusal(HTTPStatus.CONFLICT, "Conflict", text, inner)
