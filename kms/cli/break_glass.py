"""``kms break-glass``: one named relaxation for one key and a limited time, approved by a quorum."""

from __future__ import annotations

from pathlib import Path

import click

from attest.terminal import ExampleGroup
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import TELLING, Manner, carry_out, changing, tell_change
from kms.cli.inputs import read_policy_input, read_time
from kms.cli.options import AS_JSON, FILE, REASON, JsonObject, print_rows


@click.group("break-glass", cls=ExampleGroup, examples=("kms break-glass list --config kms.toml",))
def break_glass() -> None:
    """Relax one control for one key for a limited time. This requires a quorum and never skips attestation."""


@break_glass.command(
    "open",
    examples=(
        (
            "kms break-glass open --key my-model --lift-freeze tenant:research --until 2027-06-01T14:00:00Z "
            "--reason 'incident 4711' --propose --config kms.toml"
        ),
    ),
)
@click.option("--key", "key_text", required=True, metavar="KEY", help="Key that the relaxation applies to.")
@click.option("--lift-freeze", metavar="SCOPE:NAME", help="Freeze to ignore for this key: key:…, tenant:…, … or all.")
@click.option("--policy", "policy_file", type=FILE, help="Policy to appraise with instead of the key's own.")
@click.option("--until", required=True, metavar="TIME", help="RFC 3339, UTC, such as 2026-06-01T14:00:00Z.")
@changing(needs_reason=True)
@administering()
def break_glass_open(
    service: AdminClient,
    *,
    key_text: str,
    lift_freeze: str | None,
    policy_file: Path | None,
    until: str,
    manner: Manner,
) -> None:
    """Propose a relaxation for a key.

    It either ignores one freeze for the key, or uses another policy for it.
    """
    from attest.release import KeyName
    from kms.domain.freezes import require_reason, target
    from kms.quorum.break_glass import BreakGlassOpen

    if (lift_freeze is None) is (policy_file is None):
        raise click.UsageError("give either --lift-freeze or --policy, not both")
    scope, _, frozen = (lift_freeze or "").partition(":")
    change = BreakGlassOpen(
        name=KeyName.parse(key_text),
        lifts=None if lift_freeze is None else target(scope, frozen or None),
        policy=None if policy_file is None else read_policy_input(policy_file),
        reason=require_reason(manner.reason),
        until=read_time(until, "--until").replace(microsecond=0),
    )
    carry_out(service, change, manner)


@break_glass.command("list", examples=("kms break-glass list --config kms.toml",))
@administering(AS_JSON)
def break_glass_list(service: AdminClient) -> None:
    """List every relaxation, past and present, and its state."""
    found = service.get("/v1/break-glass")["break_glass"]
    document = {"schema": "kms.break-glass/1", "break_glass": found}
    print_rows(document, found, _line, none="there are no relaxations")


@break_glass.command(
    "close", examples=("kms break-glass close 3 --reason 'incident 4711 is closed' --config kms.toml",)
)
@click.argument("number", type=click.IntRange(1, 2**31 - 1))
@REASON
@administering(TELLING)
def break_glass_close(service: AdminClient, *, number: int, reason: str) -> None:
    """End a relaxation immediately, before it expires."""
    service.post(f"/v1/break-glass/{number}/close", {"reason": reason})
    tell_change("break-glass-close", f"break-glass {number} is closed", details={"number": number})


def _line(one: JsonObject) -> str:
    from attest.release import KeyName

    name = KeyName(tenant=one["tenant"], key_id=one["key_id"])
    return f"{one['number']}  {one['state']}  {_relaxed(one)}  for {name}  until {one['until']}  {one['reason']}"


def _relaxed(one: JsonObject) -> str:
    if one["lifts"] is None:
        return f"policy {one['policy_sha256']}"
    return f"thaw {one['lifts']['scope']} {one['lifts']['name']}".rstrip()
