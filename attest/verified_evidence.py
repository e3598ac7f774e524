"""Evidence that is genuine: the result of verification."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from attest.checks import Caution, Check, Unchecked
from attest.encoding import JsonValue
from attest.evidence.attachment.record import NO_FACTS, Facts
from attest.evidence.attachment.table import ATTACHMENTS
from attest.evidence.binding import Binding
from attest.evidence.claims import claims_document
from attest.evidence.device_format import DeviceFormat, VerifiedDevice
from attest.evidence.dstack.facts import log_document
from attest.evidence.envelope import (
    MEDIA_BINDING,
    MEDIA_DSTACK_LOG,
    MEDIA_DSTACK_STATEMENTS,
    MEDIA_ENDORSEMENTS,
    MEDIA_EVENT_LOG,
    Evidence,
)
from attest.evidence.eventlog.replay import VerifiedEventLog
from attest.evidence.freshness import Freshness
from attest.evidence.proof_chain import ProofLink
from attest.evidence.providers.families import DOCUMENT_TYPES
from attest.evidence.tolerances import DeviceTolerances

ACCOMPANYING = frozenset(
    {MEDIA_BINDING, MEDIA_ENDORSEMENTS, MEDIA_EVENT_LOG, MEDIA_DSTACK_LOG, MEDIA_DSTACK_STATEMENTS, *ATTACHMENTS}
)
"""Items that are no device."""


class VerifiedItem(NamedTuple):
    """One device whose evidence is genuine.

    Attributes:
        name: its name in the evidence (``cpu``).
        eventlog: the log that replays to its registers, if one was given.
        attached: facts of attached data that is bound to it, by the name of the attachment.
        attached_simulated: an attachment rests on a key of the simulator.
        machine: of a service's document, the machine's instance id or number.
        role: of a service's document, the machine's place in it (``gateway``, ``model``, ``router``).
        bound: of a service's document, what the CPU's report commits to: keys, and how GPUs and nonce are bound.
    """

    name: str
    format: DeviceFormat
    verified: VerifiedDevice
    eventlog: VerifiedEventLog | None = None
    attached: Facts = NO_FACTS
    attached_simulated: bool = False
    machine: str | None = None
    role: str | None = None
    bound: Facts = NO_FACTS

    @property
    def silicon(self) -> VerifiedDevice:
        """The part that the vendor's hardware signed: in a cloud's evidence the CPU's report, else all of it."""
        return self.format.silicon(self.verified)

    @property
    def kind(self) -> str:
        """The format's name in results (``sev-snp``)."""
        return self.format.kind

    @property
    def chain(self) -> tuple[ProofLink, ...]:
        """The links from the maker's root key to this evidence, the root first."""
        return self.format.chain(self.verified)

    @property
    def claims(self) -> dict[str, JsonValue]:
        """Everything that the evidence states, by the vendors' names; built on each access."""
        eventlog = {} if self.eventlog is None else {"eventlog": log_document(self.eventlog)}
        return {**claims_document(self.format.claims, self.verified), **eventlog, **self.attached, **self.bound}


class VerifiedEvidence(NamedTuple):
    """Evidence that is genuine, as a whole. Built by ``verify`` only. Whether it is acceptable is for a policy.

    Attributes:
        binding: the binding in the CPU's report, if the evidence carries one.
        freshness: ``MATCHED`` or ``NOT_EVALUATED``; a mismatch is never verified.
        unchecked: every requested relaxation.
        tolerances: tolerated deviations of the devices beside the CPU.
        composite_checks: checks across the items.
        cautions: what this does not show, although it is genuine.
        devices_bound: the CPU's report commits to exactly these devices, by a binding or by runtime data.
    """

    evidence: Evidence
    items: tuple[VerifiedItem, ...]
    binding: Binding | None
    freshness: Freshness
    at: datetime
    unchecked: tuple[Unchecked, ...]
    tolerances: DeviceTolerances
    composite_checks: tuple[Check, ...]
    cautions: tuple[Caution, ...] = ()
    devices_bound: bool = False

    @property
    def simulated(self) -> bool:
        """True if any part rests on the simulator's roots, or is sample evidence."""
        return any(item.verified.simulated or item.attached_simulated for item in self.items)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Names of items of unknown kinds; nothing was concluded from them, though a binding still lists them."""
        known, others = {item.name for item in self.items}, ACCOMPANYING.union(DOCUMENT_TYPES)
        return tuple(i.name for i in self.evidence.items if i.name not in known and i.essence not in others)

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check that was made, composite ones first."""
        per_item = (replace(check, item=item.name) for item in self.items for check in item.verified.checks)
        return (*self.composite_checks, *per_item)
