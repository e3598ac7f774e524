"""``kms alias``: addresses of other protocols that lead to keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import TELLING, tell_change
from kms.cli.options import AS_JSON, key_argument, print_rows, say

if TYPE_CHECKING:
    from kms.domain.keys import KeyName

_ADDRESS = click.argument("address", metavar="ADDRESS")


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms alias add kbs:///default/model-key/llama my-model --config kms.toml",
        "kms alias list --config kms.toml",
    ),
)
def alias() -> None:
    """Let addresses of other protocols lead to keys.

    An ADDRESS is kbs:///REPOSITORY/TYPE/TAG, of a Key Broker Service, or https://VAULT/keys/NAME, of a vault.
    """


@alias.command("add", examples=("kms alias add kbs:///default/model-key/llama my-model --config kms.toml",))
@_ADDRESS
@key_argument
@administering(TELLING)
def alias_add(service: AdminClient, *, address: str, name: KeyName) -> None:
    """Let an address lead to a key.

    A new key is released by the native protocol alone; 'kms key release-settings KEY --via native,kbs' allows both.
    """
    wanted = {"address": address, "tenant": name.tenant, "key_id": name.key_id}
    note = service.post("/v1/aliases", wanted)["note"]
    tell_change("alias-add", f"{address} leads to {name}", details={**wanted, "note": note})
    if note is not None:
        say(f"warning: {note}")


@alias.command("remove", examples=("kms alias remove kbs:///default/model-key/llama --config kms.toml",))
@_ADDRESS
@administering(TELLING)
def alias_remove(service: AdminClient, *, address: str) -> None:
    """Remove an alias. Its key stays."""
    gone = service.post("/v1/aliases/remove", {"address": address})
    tell_change("alias-remove", f"{address} leads to no key", details=gone)


@alias.command("list", examples=("kms alias list --config kms.toml",))
@administering(AS_JSON)
def alias_list(service: AdminClient) -> None:
    """List the aliases."""
    from attest.release import KeyName

    rows = [
        {**one, "key": str(KeyName(tenant=one["tenant"], key_id=one["key_id"]))}
        for one in service.get("/v1/aliases")["aliases"]
    ]
    print_rows({"schema": "kms.aliases/1", "aliases": rows}, rows, "{0[address]}  {0[key]}".format)
