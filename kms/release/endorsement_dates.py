"""Expiry dates of endorsements. Pure functions over unverified documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from attest import Endorsements
from attest.encoding import json_value, rfc3339
from attest.endorsements import IntelDocument
from attest.errors import EvidenceError

DatedKind = Literal["crl", "tcb-info", "qe-identity", "ocsp", "certificate"]
KINDS: Final[tuple[DatedKind, ...]] = ("crl", "tcb-info", "qe-identity", "ocsp", "certificate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dated:
    """Kind, subject for display and expiry of the newest issue of one endorsement."""

    kind: DatedKind
    name: str
    ends: datetime


def dated(endorsements: Endorsements) -> tuple[Dated, ...]:
    """List endorsements with an expiry, soonest first; of several issues, the one that expires last."""
    newest: dict[tuple[str, str], Dated] = {}
    for one in _all(endorsements):
        known = newest.get((one.kind, one.name))
        if known is None or known.ends < one.ends:
            newest[one.kind, one.name] = one
    return tuple(sorted(newest.values(), key=lambda one: (one.ends, one.kind, one.name)))


def _all(endorsements: Endorsements) -> Iterator[Dated]:
    for crl in endorsements.crls:
        name = crl.issuer_common_name or crl.issuer.hex()
        yield Dated(kind="crl", name=name, ends=crl.next_update)
    for answer in endorsements.ocsp:
        name = f"{answer.issuer_key_hash.hex()[:16]} {answer.serial:x}"
        yield Dated(kind="ocsp", name=name, ends=answer.ends)
    for certificate in endorsements.certificates:
        name = f"{certificate.name} {certificate.spki_sha256.hex()[:16]}"
        yield Dated(kind="certificate", name=name, ends=certificate.not_after)
    yield from _of_intel(endorsements.documents)


def _of_intel(documents: Iterable[IntelDocument]) -> Iterator[Dated]:
    """Read the dates in documents; skip unreadable documents, which verification refuses."""
    for document in documents:
        try:
            body = json_value(document.body, what="document")
            if not isinstance(body, dict):
                continue
            ends = rfc3339(str(body.get("nextUpdate")), what="nextUpdate")
        except EvidenceError:
            continue
        yield Dated(kind=document.kind, name=f"{body.get('id')} {body.get('fmspc', '')}".strip(), ends=ends)
