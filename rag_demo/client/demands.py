"""A user's demands on the machine. The policy file is read again whenever it changes, with immediate effect."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from attest.channel import ChannelExpectation
from attest.endorsements import NO_ENDORSEMENTS, Endorsements, TrustAnchors
from attest.evidence import Evidence
from attest.named_files import unreadable
from attest.policy import MAX_POLICY_BYTES, Policy, load_policy
from attest.session import anchors_given, asking_vendors, endorsements_given

RECORD_SECONDS: Final = 300.0
"""Default lifetime of a proof."""
_Identity = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """The demands, and the files that hold them.

    Attributes:
        audience: the service's name, which its evidence has to contain.
        policy: a policy, or the file that holds it.
        anchors: roots of the accepted hardware.
        fetch: fetches missing endorsements; None fetches none.
        max_age: lifetime of a proof.
    """

    audience: str
    policy: Policy | Path
    anchors: TrustAnchors
    endorsements: Endorsements = NO_ENDORSEMENTS
    fetch: Callable[[Evidence, datetime], Endorsements] | None = None
    max_age: timedelta = timedelta(seconds=RECORD_SECONDS)

    def reader(self) -> Callable[[], ChannelExpectation]:
        """Return a function that returns the demands in force.

        It raises ``ConfigurationError`` or ``PolicyError`` where the policy file cannot be read: without a policy
        no machine is accepted.
        """
        if isinstance(self.policy, Policy):
            expected = self._with(self.policy)
            return lambda: expected
        return _Reader(self, self.policy)

    def _with(self, policy: Policy) -> ChannelExpectation:
        return ChannelExpectation(
            audience=self.audience,
            policy=policy,
            anchors=self.anchors,
            endorsements=self.endorsements,
            fetch=self.fetch,
            max_age=self.max_age,
        )


class _Reader:
    """Reader of a policy file that reads it again after a change."""

    def __init__(self, demands: Demands, file: Path) -> None:
        self._demands = demands
        self._file = file
        self._seen: tuple[_Identity, ChannelExpectation] | None = None

    def __call__(self) -> ChannelExpectation:
        try:
            with self._file.open("rb") as stream:
                facts = os.fstat(stream.fileno())
                identity = (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
                if self._seen is not None and self._seen[0] == identity:
                    return self._seen[1]
                data = stream.read(MAX_POLICY_BYTES + 1)
        except OSError as exc:
            raise unreadable(self._file, "policy", exc, hint="nothing is sent without it") from exc
        expected = self._demands._with(load_policy(data, name=str(self._file)))  # noqa: SLF001  its own reader
        self._seen = (identity, expected)
        return expected


def read_demands(
    *,
    audience: str,
    policy: Path,
    endorsements: tuple[Path, ...] = (),
    anchors: Path | None = None,
    allow_simulated: bool = False,
    offline: bool = False,
    max_age: timedelta = timedelta(seconds=RECORD_SECONDS),
    at: datetime,
) -> Demands:
    """Read the demands from a user's files; a file of endorsements may be a directory of them.

    Raises:
        ConfigurationError: a file is missing or wrong.
        AttestError: an endorsement cannot be read.
    """
    roots = anchors_given(anchors, allow_simulated=allow_simulated)
    pool = endorsements_given(endorsements, at=at)
    demands = Demands(
        audience=audience,
        policy=policy,
        anchors=roots,
        endorsements=pool,
        fetch=None if offline else asking_vendors(pool),
        max_age=max_age,
    )
    demands.reader()()  # a wrong policy is reported first
    return demands
