"""``/v1/aliases``: addresses of other protocols that lead to keys."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter

from attest.release import KeyName
from kms.admin_api.context import WithCaller
from kms.admin_api.models.keys import AddedAliasModel, AliasListModel, AliasModel, AliasNameModel
from kms.admin_api.routes import AdminRoute, body, changes, reads
from kms.auth.authorisation import require
from kms.config.settings import Settings
from kms.config.skr import hosts_of_skr
from kms.domain.actors import Actor
from kms.domain.aliases import KBS_SCHEME, Alias, require_address, vault_address
from kms.domain.errors import KeyUnknownError
from kms.domain.permissions import Operation
from kms.keys.aliases import add_alias, remove_alias, unknown_alias
from kms.store import ReadTransaction

router = APIRouter(route_class=AdminRoute, tags=["keys"])


@router.get("/v1/aliases", summary="List aliases", responses=reads())
def list_aliases(caller: WithCaller) -> AliasListModel:
    """List every alias, of all tenants."""
    caller.require(Operation.KEYS_READ, tenant=None)
    with caller.vault.store.reading() as reader:
        return AliasListModel(aliases=[_model(one) for one in reader.aliases.all()])


@router.post("/v1/aliases", operation_id="addAlias", summary="Add an alias", responses=changes(404, 409))
def create_alias(caller: WithCaller, wanted: Annotated[AliasModel, body(AliasModel)]) -> AddedAliasModel:
    """Let an address lead to a key. Whether the key is released by that protocol is among its release settings."""
    key = KeyName(tenant=wanted.tenant, key_id=wanted.key_id)
    caller.require(Operation.KEYS_CHANGE, key=key)
    alias = Alias(address=require_address(wanted.address), key=key)
    note = _note(caller.settings, alias.address)
    add_alias(caller.vault.store, alias, actor=caller.identity, at=caller.now())
    return AddedAliasModel(address=alias.address, tenant=key.tenant, key_id=key.key_id, note=note)


@router.post("/v1/aliases/remove", operation_id="removeAlias", summary="Remove an alias", responses=changes(404))
def delete_alias(caller: WithCaller, wanted: Annotated[AliasNameModel, body(AliasNameModel)]) -> AliasModel:
    """Remove an alias. Its key stays."""
    address = require_address(wanted.address)
    caller.demand(partial(_require_of_owner, caller.identity, address))
    return _model(remove_alias(caller.vault.store, address, actor=caller.identity, at=caller.now()))


def _require_of_owner(identity: Actor, address: str, reader: ReadTransaction) -> None:
    """Permit the owners of the key that an address leads to; for others who see nothing of it there is no alias."""
    found = reader.aliases.find(address)
    if found is None:
        raise unknown_alias(address)
    try:
        require(reader, identity, Operation.KEYS_CHANGE, tenant=found.key.tenant, key=found.key)
    except KeyUnknownError as exc:
        raise unknown_alias(address) from exc


def _note(settings: Settings, address: str) -> str | None:
    """Return why this service does not serve an address, or None.

    Raises:
        ConfigurationError: the file of the vaults cannot be read.
    """
    if address.startswith(KBS_SCHEME):
        return None if settings.kbs_file else "this service serves no guests: the setting kbs_file turns that on"
    if settings.skr_file is None:
        return "this service serves no vault: the setting skr_file turns that on"
    hosts = hosts_of_skr(settings.skr_file)
    if any(address.startswith(vault_address(one, "")) for one in hosts):
        return None
    return f"this service serves no vault of this name; it serves {', '.join(hosts)}"


def _model(alias: Alias) -> AliasModel:
    return AliasModel(address=alias.address, tenant=alias.key.tenant, key_id=alias.key.key_id)
