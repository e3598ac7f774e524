"""``kms releases``: holders of keys, leases affected by an advisory or another policy, and stops of renewals."""

from __future__ import annotations

import re
from collections.abc import Callable, Sized
from functools import wraps
from pathlib import Path

import click

from attest.terminal import ExampleGroup, stacked
from kms.cli.administration import AdminClient, administering
from kms.cli.changes import TELLING, tell_change
from kms.cli.inputs import read_evidence_input, read_hex, read_policy_input, read_time
from kms.cli.options import AS_JSON, FILE, REASON, JsonObject, print_json, say, wants_json

_CHIP = re.compile(r"(amd|intel):[0-9a-f]+")
_MARK = re.compile(r"[0-9]{1,18}:.+", re.ASCII)
_NARROWING = ("tenant", "key_id", "policy_sha256", "measurement", "chip", "product")
_PAGE = 1000
"""Leases per request: the maximum of the API."""


def _digest(_context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    return None if value is None else read_hex(value, option.opts[0]).hex()


def _moment(_context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    from attest.encoding import rfc3339_text

    return None if value is None else rfc3339_text(read_time(value, option.opts[0]))


def _mark(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _MARK.fullmatch(value):
        raise click.UsageError("--after: expected the mark printed at the end of the previous page")
    return value


_BEHIND = "Continue after this mark, printed at the end of the previous page."
_BY_DIGEST = "Released under the policy with this SHA-256."
_WHICH = (
    click.option("--tenant", metavar="TENANT", help="Only keys of this tenant."),
    click.option("--key", "key", metavar="KEY", help="Only this key."),
    click.option("--policy-digest", "policy_sha256", metavar="HEX", callback=_digest, help=_BY_DIGEST),
    click.option("--measurement", metavar="HEX", callback=_digest, help="Released to this image."),
    click.option("--chip", metavar="CHIP", help="On this chip: amd: or intel: and its id in hex."),
    click.option("--product", metavar="NAME", help="On Genoa, Milan, Turin, a FMSPC, or a TEE (sev-snp, tdx, sgx)."),
    click.option("--since", metavar="TIME", callback=_moment, help="Released at this time or later (RFC 3339)."),
    click.option("--until", metavar="TIME", callback=_moment, help="Released at this time or earlier."),
    click.option("--stopped", is_flag=True, help="Only leases whose renewal is stopped."),
    click.option("--all", "everything", is_flag=True, help="Include expired and ended leases."),
    click.option("--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Maximum to list."),
    click.option("--after", metavar="MARK", callback=_mark, help=_BEHIND),
)
_MEMBERS = ("policy_sha256", "measurement", "chip", "product", "since", "until", "stopped", "everything", "after")
"""Options with the same name as a member of a query."""


def _selecting(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that select leases; the command gets a query as ``wanted``, and ``limit``."""

    @wraps(command)
    def called(*, tenant: str | None, key: str | None, **given: object) -> None:
        members = {name: given.pop(name) for name in _MEMBERS}
        command(wanted={**_of_key(tenant, key), **members}, **given)

    return stacked(_WHICH)(called)


def _of_key(tenant: str | None, key: str | None) -> dict[str, str | None]:
    from attest.release import KeyName

    if key is None:
        return {"tenant": tenant}
    name = KeyName.parse(key)
    if tenant not in {None, name.tenant}:
        raise click.UsageError(f"--key names a key of the tenant {name.tenant}, and --tenant another tenant")
    return {"tenant": name.tenant, "key_id": name.key_id}


_REASON = click.option("--reason", metavar="TEXT", help="Reason, recorded permanently in the log.")


@click.group(
    cls=ExampleGroup,
    examples=(
        "kms releases list --key my-model --config kms.toml",
        "kms releases affected --advisory INTEL-SA-01192 --config kms.toml",
    ),
)
def releases() -> None:
    """List and find leases, and stop their renewal."""


@releases.command(
    "list",
    examples=(
        "kms releases list --key my-model --config kms.toml",
        "kms releases list --product Genoa --json --config kms.toml",
    ),
)
@_selecting
@administering(AS_JSON)
def releases_list(service: AdminClient, *, wanted: JsonObject, limit: int) -> None:
    """List leases, oldest first. Without --all, only live ones."""
    show_leases(*found_leases(service, wanted, limit))


@releases.command(
    "affected",
    examples=(
        "kms releases affected --advisory INTEL-SA-01192 --config kms.toml",
        "kms releases affected --tcb-below Genoa:snp=27 --stop-renewals --reason CVE-2025-0033 --config kms.toml",
    ),
)
@click.option("--advisory", multiple=True, metavar="INTEL-SA-…", help="Affected by this Intel advisory.")
@click.option("--tcb-below", multiple=True, metavar="PRODUCT:COMPONENT=LEVEL", help="With a TCB below this level.")
@click.option("--policy", "policy_file", type=FILE, help="Not conforming to this policy.")
@click.option("--stop-renewals", is_flag=True, help="Stop renewal of the leases found. Without --yes only list them.")
@click.option("--yes", is_flag=True, help="Stop the renewals.")
@_REASON
@_selecting
@administering(AS_JSON)
def releases_affected(
    *,
    service: AdminClient,
    wanted: JsonObject,
    limit: int,
    advisory: tuple[str, ...],
    tcb_below: tuple[str, ...],
    policy_file: Path | None,
    stop_renewals: bool,
    yes: bool,
    reason: str | None,
) -> None:
    """Find leases affected by an advisory, level or policy.

    Each has the reasons; leases with unknown claims count as affected. A lease must match at least one advisory, level
    or policy, and all other options. With --stop-renewals --yes these leases are not renewed, and their keys are no
    longer released to the same machine with the same image.
    """
    if not (advisory or tcb_below or policy_file or any(wanted.get(one) is not None for one in _NARROWING)):
        raise click.UsageError("give a condition: --advisory, --tcb-below, --policy, --chip, --measurement, …")
    _require_stop_options(stop_renewals=stop_renewals, yes=yes, reason=reason, after=wanted["after"])
    wanted |= {"advisories": list(advisory), "tcb_below": list(tcb_below)}
    wanted["policy"] = None if policy_file is None else read_policy_input(policy_file).decode()
    if stop_renewals and yes:
        _require_chip(wanted)
        done = service.post("/v1/leases/stop", {**wanted, "reason": reason})["leases"]
        show_leases(done, None)
        say(f"renewal stopped for {_count(done)}; current holders keep the key until they drop it")
        return
    show_leases(*found_leases(service, wanted, limit))
    if stop_renewals:
        say("note: nothing was stopped; to stop the renewals, add --yes")


def _require_stop_options(*, stop_renewals: bool, yes: bool, reason: str | None, after: str | None) -> None:
    if stop_renewals and not reason:
        raise click.UsageError("--stop-renewals requires --reason, which is recorded in the log")
    if (yes or reason) and not stop_renewals:
        raise click.UsageError("--yes and --reason require --stop-renewals")
    if stop_renewals and after is not None:
        raise click.UsageError("--stop-renewals applies to all leases found: omit --after")


@releases.command("resume", examples=("kms releases resume 7f3a91 --reason 'firmware is updated' --config kms.toml",))
@click.argument("lease_ids", nargs=-1, required=True)
@REASON
@administering(TELLING)
def releases_resume(service: AdminClient, *, lease_ids: tuple[str, ...], reason: str) -> None:
    """Allow the renewal of stopped leases again."""
    leases = list(dict.fromkeys(lease_ids))
    service.post("/v1/leases/resume", {"lease_ids": leases, "reason": reason})
    text = f"renewal allowed again for {_count(leases)}; their keys are released to the same machines again"
    tell_change("releases-resume", text, details={"leases": leases})


@releases.command("try", examples=("kms releases try --evidence evidence.json --key my-model --config kms.toml",))
@click.option("--evidence", required=True, type=FILE, help="File with evidence; - for stdin.")
@click.option("--key", "keys", required=True, multiple=True, metavar="KEY", help="KEY, TENANT/KEY, or with @VERSION.")
@click.option("--renews", multiple=True, metavar="LEASE", help="Lease to renew. Repeatable.")
@click.option("--at", "at_text", metavar="TIME", help="Time of the appraisal (RFC 3339). Default: now.")
@administering(AS_JSON)
def releases_try(
    service: AdminClient,
    *,
    evidence: Path,
    keys: tuple[str, ...],
    renews: tuple[str, ...],
    at_text: str | None,
) -> None:
    """Try a release on evidence, and change nothing.

    This shows the outcome that a release would have, with every reason and failed check. Nothing is changed. The
    evidence is treated as an answer to a challenge of this service. Exit code 1 if the keys would not be released.
    """
    from attest.encoding import rfc3339_text
    from attest.release import KeyReference
    from kms.domain.errors import ReleaseDeniedError

    at = None if at_text is None else rfc3339_text(read_time(at_text, "--at"))
    names = list(dict.fromkeys(str(KeyReference.parse(one)) for one in keys))
    given = {"evidence": read_evidence_input(evidence), "keys": names, "renews": list(renews), "at": at}
    answer = service.post("/v1/releases/try", given)
    would_release = answer["trial"]["outcome"] == "allow"
    if wants_json():
        print_json(answer["trial"])
    else:
        _tell_trial(answer, would_release=would_release)
    if not would_release:
        raise ReleaseDeniedError("the keys would not be released", code="release-would-be-refused")


def _require_chip(wanted: JsonObject) -> None:
    """Refuse an invalid chip id: an empty list would look like "no lease is affected"."""
    if wanted["chip"] is not None and not _CHIP.fullmatch(wanted["chip"]):
        raise click.UsageError("--chip: expected amd: or intel: and the chip's id in lower-case hex")


def _count(leases: Sized) -> str:
    return "1 lease" if len(leases) == 1 else f"{len(leases)} leases"


def found_leases(service: AdminClient, wanted: JsonObject, limit: int) -> tuple[list[JsonObject], str | None]:
    """Return up to ``limit`` leases, page by page, and the mark after which there are more."""
    _require_chip(wanted)
    found: list[JsonObject] = []
    mark = wanted["after"]
    while True:
        size = min(_PAGE, limit - len(found))
        page = service.post("/v1/leases/query", {**wanted, "limit": size, "after": mark})
        found += page["leases"]
        mark = page["next"]
        if mark is None or len(found) >= limit:
            return found, mark


def show_leases(found: list[JsonObject], mark: str | None) -> None:
    """Print leases, with the reasons why each is affected."""
    if wants_json():
        print_json({"schema": "kms.releases/1", "leases": found, "next": mark})
        return
    for one in found:
        shown = {**one, "chip": one["chip"] or "no chip stated"}
        click.echo("{lease_id}  {key}@{version}  {state:10}  {tee}  {chip}  until {expires_at}".format(**shown))
        for line in one["why"]:
            click.echo(f"    {line}")
    if not found:
        say("note: no lease matches")
    if mark is not None:
        say(f"note: there are more; continue with --after {mark}")


def _tell_trial(answer: JsonObject, *, would_release: bool) -> None:
    trial = answer["trial"]
    click.echo(f"{', '.join(trial['requested'])}: {'would be released' if would_release else 'REFUSED'}")
    for reason in trial["reasons"]:
        click.echo("  {code}: {text}".format(**reason))
    for check in answer["failed"]:
        where = "" if check["key"] is None else f" (policy of {check['key']})"
        click.echo(f"    {check['id']}{where}: expected {check['expected']}, got {check['got']}")
    say("note: dry run; nothing was decided, logged or released")
