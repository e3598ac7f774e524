"""The claims of one device for people: the ones that matter first, or all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.text import Text

from attest.cli.console import plain
from attest.encoding import JsonValue

__all__ = ["claim_rows"]

_Claims = Mapping[str, JsonValue]
_TCBS = ("reported_tcb", "current_tcb", "committed_tcb", "launch_tcb")
_SHOWN_WHEN_SET = ("host_data", "family_id", "image_id", "id_key_digest", "author_key_digest")


def claim_rows(claims: _Claims, *, verbose: bool) -> Iterator[tuple[str, Text]]:
    """Yield names and values: what a person asks first, or every claim."""
    if verbose or "measurement" not in claims:
        yield from _all(claims)
        return
    yield "machine", plain(_machine(claims))
    yield "measurement", plain(claims["measurement"], "bold")
    yield "report data", plain(claims.get("report_data", ""))
    yield "firmware", plain(_firmware(claims))
    yield from _tcbs(claims)
    yield "guest policy", plain(_guest_policy(claims))
    yield "chip id", plain(claims.get("chip_id", ""))
    for name in _SHOWN_WHEN_SET:
        value = claims.get(name)
        if isinstance(value, str) and value.strip("0"):
            yield name.replace("_", " "), plain(value)


def _all(claims: _Claims, prefix: str = "") -> Iterator[tuple[str, Text]]:
    for name, value in claims.items():
        if isinstance(value, dict):
            if value and all(isinstance(member, int) and not isinstance(member, bool) for member in value.values()):
                yield prefix + name, plain(_tcb(value))
            else:
                yield from _all(value, f"{prefix}{name}.")
        else:
            yield prefix + name, plain(str(value).lower() if isinstance(value, bool) else value)


def _machine(claims: _Claims) -> str:
    parts = [
        f"AMD {claims.get('product')}",
        f"report version {claims.get('version')}",
        f"VMPL {claims.get('vmpl')}",
        f"signed with its {str(claims.get('signing_key')).upper()}",
    ]
    if "csp_id" in claims:
        parts.append(f"provider {claims['csp_id']}")
    return ", ".join(parts)


def _firmware(claims: _Claims) -> str:
    current, committed = claims.get("current_version"), claims.get("committed_version")
    if claims.get("provisional_firmware") is True:
        return f"{current}, provisional: can be rolled back to {committed} and to the committed TCB"
    return f"{current}, committed"


def _tcbs(claims: _Claims) -> Iterator[tuple[str, Text]]:
    """One line when all agree, else one each."""
    found = {name: claims.get(name) for name in _TCBS}
    texts = {name: _tcb(value) for name, value in found.items() if isinstance(value, dict)}
    if len(set(texts.values())) == 1:
        yield "TCB", plain(f"{texts['reported_tcb']} (reported, current, committed and at launch)")
        return
    for name, text in texts.items():
        yield name.replace("_tcb", " TCB"), plain(text)


def _tcb(value: Mapping[str, JsonValue]) -> str:
    return " ".join(f"{part} {level}" for part, level in value.items())


def _guest_policy(claims: _Claims) -> str:
    policy = claims.get("policy")
    bits = policy if isinstance(policy, dict) else {}
    debug = "DEBUG ALLOWED" if bits.get("debug") else "debug off"
    agent = "MIGRATION AGENT ALLOWED" if bits.get("migrate_ma") else "migration agent off"
    others = [name for name, value in bits.items() if value is True and name not in ("debug", "migrate_ma")]
    return ", ".join([debug, agent, *(f"{name} allowed" for name in others)])
