"""NEAR's compose manager: a second quote of the same machine, over the list of what the manager did since boot.

The compose hash of such a machine covers the manager. Its list says which containers it started, by commit and hash
of a file; the manager reports it, and nothing else measures it.

Spec: specs/providers.md, section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

from attest.encoding import JsonValue
from attest.errors import BindingError
from attest.evidence.envelope import Evidence
from attest.evidence.providers.comparison import equal
from attest.evidence.providers.document import PresentedMachine
from attest.evidence.providers.dstack_items import dstack_items
from attest.evidence.providers.values import FORM, Members, compact_json, given, hex_at, members_of, optional_hex_at

MAX_ACTIONS = 4096
_ORDER = (
    "timestamp",
    "action",
    "tag",
    "commit",
    "file",
    "file_sha256",
    "services",
    "container",
    "containers",
    "image",
)
"""Order of the members in which older versions of the manager write an action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeManager:
    """The list and the quote over it.

    Attributes:
        count: number of actions.
        hashes: SHA-256 of the list in each order of members that the manager is known to write.
        stated_hash: the hash that the document names.
        stated_nonce: the nonce that the document names.
    """

    evidence: Evidence
    count: int
    hashes: tuple[bytes, ...]
    stated_hash: bytes | None
    stated_nonce: bytes | None

    def require(self, presented: PresentedMachine, machine: PresentedMachine) -> None:
        """Require the quote to be of the same machine, of the same moment, and over this list.

        No policy sees this quote. So it counts only as far as the machine's own quote, which a policy judges, has the
        same report, from the same platform: not under debug, not of another owner, not on older firmware.

        Raises:
            BindingError: ``provider-statement-mismatch``.
        """
        found, nonce = presented.report_data[:32], presented.report_data[32:]
        _same(machine.machine, presented.machine, "report and platform of the compose manager's quote")
        _same(machine.report_data[32:], nonce, "nonce of the compose manager's quote")
        _same(nonce, self.stated_nonce or nonce, "compose_manager_attestation.nonce")
        _same(found, self.stated_hash or found, "compose_manager_attestation.actions_hash")
        if found not in self.hashes:
            raise BindingError(
                "the compose manager's quote is over another list of actions",
                code="provider-statement-mismatch",
                field="compose_manager_attestation.actions",
                expected=found.hex(),
                got=" or ".join(digest.hex() for digest in self.hashes),
                hint="the list was changed after the manager's quote was made",
            )


def _same(wanted: bytes, got: bytes, field: str) -> None:
    equal(
        wanted,
        got,
        f"{field}: not those of the machine's signed evidence",
        code="provider-statement-mismatch",
        field=field,
    )


def read_compose_manager(machine: Members, path: str) -> ComposeManager | None:
    """Read the manager's attestation of a machine, or None where there is none.

    Raises:
        EvidenceError: ``provider-document-malformed``.
    """
    if not given(machine, "compose_manager_attestation"):
        return None
    path = f"{path}.compose_manager_attestation"
    members = members_of(machine["compose_manager_attestation"], path)
    actions = FORM.array_of(members.get("actions"), f"{path}.actions", most=MAX_ACTIONS)
    listed = [_listed(members_of(action, f"{path}.actions[{number}]")) for number, action in enumerate(actions)]
    quote = hex_at(members, "quote", path, sizes=None)
    return ComposeManager(
        evidence=Evidence(items=dstack_items(quote, members)),
        count=len(actions),
        hashes=(
            sha256(compact_json(listed)).digest(),
            sha256(compact_json(listed, by_name=True)).digest(),
        ),
        stated_hash=optional_hex_at(members, "actions_hash", path),
        stated_nonce=optional_hex_at(members, "nonce", path),
    )


def _listed(action: Members) -> JsonValue:
    """Return an action with its members in the manager's order; unknown ones come last."""
    known = {name: action[name] for name in _ORDER if name in action}
    return {**known, **action}
