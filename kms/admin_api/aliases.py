"""``/v1/aliases``: addresses of other protocols that lead to keys."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter

from attest.release import KeyName
from kms.admin_api.context import WithCaller
from kms.admin_api.models.keys import AliasListModel, AliasModel, AliasNameModel
from kms.admin_api.routes import AdminRoute, body, changes, reads
from kms.auth.authorisation import require
from kms.domain.actors import Actor
from kms.domain.aliases import Alias, require_address
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
def create_alias(caller: WithCaller, wanted: Annotated[AliasModel, body(AliasModel)]) -> AliasModel:
    """Let an address lead to a key. Whether the key is released by that protocol is among its release settings."""
    key = KeyName(tenant=wanted.tenant, key_id=wanted.key_id)
    caller.require(Operation.KEYS_CHANGE, key=key)
    alias = Alias(address=require_address(wanted.address), key=key)
    add_alias(caller.vault.store, alias, actor=caller.identity, at=caller.now())
    return _model(alias)


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


def _model(alias: Alias) -> AliasModel:
    return AliasModel(address=alias.address, tenant=alias.key.tenant, key_id=alias.key.key_id)
