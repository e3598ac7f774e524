"""Evidence for any client: made under its nonce, with the vendors' endorsements beside it.

Any client may request it, and a machine takes a while for each: evidence for a nonce is cached for a moment, and the
configuration limits the rate. Above it the gateway answers 503, in the clear.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from attest.channel import KeyDocument, KeyOffer, channel_binding
from attest.clock import Clock
from attest.errors import AttestError, CollectionError, ConfigurationError
from attest.evidence import MEDIA_ENDORSEMENTS, EvidenceItem
from attest.named_files import read_named
from attest.rate_limits import Rate, RateTable
from attest.release import Attester

KEPT: Final = 256
KEPT_FOR: Final = timedelta(seconds=30)
VENDORS_FOR: Final = timedelta(minutes=10)
"""Maximum age of endorsements before they are read again."""
MAX_ENDORSEMENT_BYTES: Final = 2 * 1024 * 1024
"""Limit for all endorsements together: a client reads 4 MiB of an offer, in which they are a third longer."""
MAX_ENDORSEMENT_FILES: Final = 24
_ENDORSEMENTS: Final = 2
"""The indicator of endorsements among evidence (RFC 9999)."""

Vendors = Callable[[datetime], Mapping[str, bytes]]
"""Returns what vendors say at a moment, as files of any form that ``attest`` reads."""


class Offers:
    """Maker of offers. Safe to use from any thread.

    Args:
        vendors: returns endorsements; None returns evidence alone.
    """

    def __init__(
        self,
        attester: Attester,
        *,
        audience: str,
        vendors: Vendors | None,
        clock: Clock,
        ticks: Callable[[], float],
        per_minute: int,
    ) -> None:
        self._attester = attester
        self._audience = audience
        self._vendors = vendors
        self._clock = clock
        self._ticks = ticks
        self._rate = RateTable(Rate(per_second=per_minute / 60, burst=max(1, per_minute // 10)), size=1)
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[bytes, bytes], tuple[datetime, KeyOffer]] = OrderedDict()
        self._said: tuple[datetime, tuple[EvidenceItem, ...]] | None = None
        self.made = 0

    def __call__(self, document: KeyDocument, nonce: bytes) -> KeyOffer:
        """Return the key document with evidence under a nonce.

        Raises:
            CollectionError: ``rag-evidence-limited``; or as the attester.
        """
        at, name = self._clock(), (document.digest, nonce)
        with self._lock:
            found = self._kept.get(name)
        if found is not None and abs(at - found[0]) < KEPT_FOR:
            return found[1]
        wait = self._rate.wait_of("", at=self._ticks())
        if wait > 0:
            raise CollectionError(
                "this machine cannot make more evidence at the moment",
                code="rag-evidence-limited",
                got=f"{wait:.1f} s to wait",
            )
        evidence = self._attester(channel_binding(document, audience=self._audience, nonce=nonce))
        evidence = replace(evidence, items=(*evidence.items, *self._endorsements(at)))
        offer = KeyOffer(evidence=evidence, keys=document.to_bytes())
        with self._lock:
            self.made += 1
            self._kept[name] = (at, offer)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return offer

    def _endorsements(self, at: datetime) -> tuple[EvidenceItem, ...]:
        """Return what vendors say; where it cannot be read again, what they said before: clients judge its age."""
        if self._vendors is None:
            return ()
        with self._lock:
            said = self._said
        if said is not None and abs(at - said[0]) < VENDORS_FOR:
            return said[1]
        try:
            items = tuple(_items(self._vendors(at)))
        except AttestError:
            if said is None:
                raise
            items = said[1]
        with self._lock:
            self._said = (at, items)
        return items


def _items(files: Mapping[str, bytes]) -> Iterable[EvidenceItem]:
    if len(files) > MAX_ENDORSEMENT_FILES or sum(map(len, files.values())) > MAX_ENDORSEMENT_BYTES:
        raise ConfigurationError(
            f"machine.endorsements: more than {MAX_ENDORSEMENT_FILES} files or {MAX_ENDORSEMENT_BYTES} bytes",
            code="rag-endorsements-too-large",
            field="machine.endorsements",
            expected=f"at most {MAX_ENDORSEMENT_FILES} files of {MAX_ENDORSEMENT_BYTES} bytes together",
            got=f"{len(files)} files",
            hint="name only endorsements of this machine: 'attest endorsements fetch' writes them into one file",
        )
    for number, (_, data) in enumerate(sorted(files.items())):
        # A machine may have brought an item ``endorsements`` of its own.
        yield EvidenceItem(name=f"vendors-{number}", media_type=MEDIA_ENDORSEMENTS, value=data, indicator=_ENDORSEMENTS)


def files_of(paths: tuple[Path, ...]) -> Vendors:
    """Return a reader of files and folders that reads them each time.

    Raises:
        ConfigurationError: ``file-unreadable``, at the first call.
    """

    def read(_at: datetime) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for path in paths:
            for one in sorted(path.rglob("*")) if path.is_dir() else [path]:
                if one.is_file() or one == path:
                    found[str(one)] = read_named(one, "machine.endorsements", limit=MAX_ENDORSEMENT_BYTES)
        return found

    return read
