"""Findings in policies, and the context of the rules that make them."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from attest.encoding import rfc3339_text
from attest.policy.decoder import Demand, RelaxedDemand, stated
from attest.policy.eventlog import EventLogDemands
from attest.policy.model import PolicyBody, PolicyDocument

SOON = timedelta(days=30)
"""The time before an expiry from which it is a warning."""


class Severity(enum.StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """The policy does not have its apparent effect, or accepts unsafe evidence."""
    WARNING = "warning"
    """A probable mistake."""
    NOTE = "note"
    """Worth knowing."""

    @property
    def rank(self) -> int:
        """The worst is 0."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFinding:
    """One probable mistake.

    Attributes:
        rule: stable name of the rule (``reference-expired``).
        path: its place in the document (``any_of[0].snp.products``).
    """

    rule: str
    severity: Severity
    path: str
    why: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LintContext:
    """The policy as a whole, and the moment by which expiry is judged."""

    policy: PolicyDocument
    at: datetime

    @property
    def laboratory(self) -> bool:
        """True if simulated evidence is accepted: such a policy protects nothing of value."""
        return isinstance(self.policy.simulated.value, RelaxedDemand)

    def in_production(self, severity: Severity) -> Severity:
        """Return the severity; in a laboratory it is a note."""
        return Severity.NOTE if self.laboratory else severity

    def identified(self, body: PolicyBody) -> frozenset[str]:
        """Return the kinds of CPU whose software this body demands."""
        kinds = {kind for kind in _IDENTITY if _identifies(body, kind)}
        if body.azure is not None and self.judges_loader(body.azure.event_log):
            kinds.add("azure")
        return frozenset(kinds)

    def judges_loader(self, log: EventLogDemands | None) -> bool:
        """Return True if a log is demanded whose boot loader events are all accepted ones."""
        return log is not None and log.demands_loader and self._log_must_come

    def judges_firmware(self, log: EventLogDemands | None) -> bool:
        """Return True if a log is demanded whose firmware events are all accepted ones."""
        return log is not None and log.demands_firmware and self._log_must_come

    @property
    def _log_must_come(self) -> bool:
        return all(entry.check != "eventlog" for entry in self.policy.unchecked)

    def expiry(self, what: str, path: str, end: datetime, remedy: str) -> Iterator[LintFinding]:
        """Return the finding about an end; its last moment still counts."""
        when = rfc3339_text(end)
        if end < self.at:
            yield LintFinding(
                rule=f"{what}-expired",
                severity=Severity.ERROR,
                path=f"{path}.expires",
                why=f"it expired at {when}",
                remedy=f"{remedy}, or remove it",
            )
        elif end - self.at <= SOON:
            yield LintFinding(
                rule=f"{what}-expires-soon",
                severity=Severity.WARNING,
                path=f"{path}.expires",
                why=f"it expires at {when}, in {(end - self.at).days} days",
                remedy=remedy,
            )


_IDENTITY = {
    "snp": ("measurement", "id_key_digests", "author_key_digests"),
    "tdx": ("mr_td",),
    "azure": ("pcrs",),
    "sgx": ("mr_enclave", "mr_signer"),
}
"""Demands on the software: measured by the hardware, or signed with a key that the hardware checked."""


def _identifies(body: PolicyBody, kind: str) -> bool:
    section = getattr(body, kind)
    if section is None:
        return False
    demands: list[Demand[object] | None] = []
    for name in _IDENTITY[kind]:
        found = getattr(section, name)
        demands += found.values() if isinstance(found, Mapping) else [found]
    return any(stated(demand) is not None for demand in demands)
