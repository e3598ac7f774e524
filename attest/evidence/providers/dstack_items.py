"""Quote, event log and statements of a dstack machine as items of evidence."""

from __future__ import annotations

from attest.evidence.envelope import MEDIA_DSTACK_LOG, MEDIA_DSTACK_STATEMENTS, MEDIA_INTEL_QUOTE, EvidenceItem
from attest.evidence.providers.values import Members, compact_json, given

_STATED = ("report_data", "vm_config", "info")


def dstack_items(quote: bytes, members: Members) -> tuple[EvidenceItem, ...]:
    """Return the items that ``members`` have beside a quote; the log may be an array or its text."""
    items = [EvidenceItem(name="cpu", media_type=MEDIA_INTEL_QUOTE, value=quote)]
    if given(members, "event_log"):
        log = members["event_log"]
        value = log.encode() if isinstance(log, str) else compact_json(log)
        items.append(EvidenceItem(name="eventlog", media_type=MEDIA_DSTACK_LOG, value=value))
    stated = {name: members[name] for name in _STATED if given(members, name)}
    if stated:
        items.append(EvidenceItem(name="dstack", media_type=MEDIA_DSTACK_STATEMENTS, value=compact_json(stated)))
    return tuple(items)
