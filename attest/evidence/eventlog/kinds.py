"""Kinds of logs: the registers of their indices, the initial values, and the digest that counts.

The caller chooses the kind, from the evidence that the log came with, never from the log.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256, sha384

from attest.evidence.eventlog.vocabulary import ALGORITHMS, SHA256, SHA384


class Growth(enum.Enum):
    """Extensions that a register may receive after the end of the log."""

    NONE = "none"
    """None. The log leads to its value, or is of another boot, cut short or changed."""
    SYSTEM = "system"
    """The operating system may go on. Whether a difference is its doing cannot be judged by the log."""
    SYSTEM_ALONE = "system alone"
    """Like ``SYSTEM``, but firmware and boot loaders do not extend it: a log without events does not cover it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """One register.

    Attributes:
        initial: its value before the first event, as long as a digest; None for one that no event extends.
        phases: what an operating system is known to extend it by then, in this order, as far as it has come.
    """

    name: str
    initial: bytes | None
    growth: Growth = Growth.NONE
    phases: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogKind:
    """Meaning of a log's register indices, and the digest that counts.

    Attributes:
        registers: of each index; a higher index is malformed.
        bank: algorithm id of the digest that every record must have, and by which registers are extended.
        locality_index: index of the register whose last byte starts as the locality of TPM2_Startup, which the log
            records; None when there is no such register.
    """

    name: str
    registers: tuple[Register, ...]
    bank: int
    locality_index: int | None = None

    @property
    def size(self) -> int:
        """Bytes of a register and of a digest."""
        return ALGORITHMS[self.bank].size

    def hashed(self, data: bytes) -> bytes:
        """Return the digest of data in the bank that counts."""
        return _HASHES[self.bank](data).digest()


_HASHES = {SHA256: sha256, SHA384: sha384}


_RTMRS = tuple(Register(name=f"RTMR{number}", initial=bytes(48)) for number in range(4))
CCEL = LogKind(name="CCEL", registers=(Register(name="MRTD", initial=None), *_RTMRS), bank=SHA384)
"""Intel TDX. Index 0 is MRTD, which no event extends."""

_OS_SEPARATOR = (b"os-separator",)
_PHASES: Mapping[int, tuple[bytes, ...]] = {
    **dict.fromkeys((*range(8), 9, 12, 13, 14), _OS_SEPARATOR),
    11: (b"enter-initrd", b"leave-initrd", b"sysinit", b"ready", b"shutdown", b"final"),
}
"""Words whose hashes systemd extends registers by once the firmware's log has ended (systemd-pcrphase.service(8)): it
closes those of firmware and boot loader, and marks the phases of a boot from a unified kernel image."""
_GROWTH: Mapping[int, Growth] = {
    8: Growth.SYSTEM,  # init data of peer pods (azure-cvm.md 5)
    9: Growth.SYSTEM,  # the state of systemd's registers in the TPM's memory
    10: Growth.SYSTEM_ALONE,  # IMA
    11: Growth.SYSTEM,  # phases of systemd
    12: Growth.SYSTEM,  # configuration of a unified kernel image, which its system may add to
    13: Growth.SYSTEM,  # extensions of the system, as above
    15: Growth.SYSTEM_ALONE,  # machine id and volume keys, by systemd
    16: Growth.SYSTEM_ALONE,  # debugging; can be reset
    **dict.fromkeys(range(17, 23), Growth.SYSTEM_ALONE),  # a late launch (DRTM), which has a log of its own
    23: Growth.SYSTEM_ALONE,  # applications; can be reset
}


def _pcr(index: int) -> Register:
    """Return a register of a PC's TPM; those of the late launch start with all bits set.

    Spec: TCG PC Client Platform TPM Profile, the table of PCR attributes.
    """
    return Register(
        name=f"PCR{index}",
        initial=b"\xff" * 32 if 17 <= index <= 22 else bytes(32),
        growth=_GROWTH.get(index, Growth.NONE),
        phases=tuple(sha256(word).digest() for word in _PHASES.get(index, ())),
    )


TCG2_SHA256 = LogKind(name="TCG2", registers=tuple(_pcr(index) for index in range(24)), bank=SHA256, locality_index=0)
"""A TPM's log, by its SHA-256 bank."""
