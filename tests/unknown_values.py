"""Simulated devices that state values of no known meaning, as newer firmware may, and the neighbours of such values."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from attest_simulator import SimulatedChip, der
from attest_simulator.certificates import CertificateTemplate
from attest_simulator.nvidia import SimulatedGpu

SPLS = {"spl4": "3.4", "spl5": "3.5", "spl6": "3.6", "spl7": "3.7"}
_ARC = "1.3.6.1.4.1.3704.1."


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedGpu(SimulatedGpu):
    """A GPU whose opaque data has other values, by type."""

    values: Mapping[int, bytes]

    def opaque_entries(self) -> tuple[tuple[int, bytes], ...]:
        """Return types and values in the known order."""
        own = super(ExtendedGpu, self).opaque_entries()
        return tuple((kind, self.values.get(kind, value)) for kind, value in own)


def extended_gpu(values: Mapping[int, bytes], gpu: SimulatedGpu | None = None) -> ExtendedGpu:
    """Return a GPU with other values by type."""
    ordinary = gpu or SimulatedGpu.of()
    members = {one.name: getattr(ordinary, one.name) for one in fields(SimulatedGpu)}
    return ExtendedGpu(**members, values=values)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedChip(SimulatedChip):
    """A chip whose certificate has levels of components that no version of AMD's specification names."""

    spares: Mapping[str, int]

    def leaf_template(self) -> CertificateTemplate:
        """Return the unsigned certificate of the signing key."""
        template, levels = super(ExtendedChip, self).leaf_template(), {SPLS[n]: v for n, v in self.spares.items()}
        return replace(
            template,
            extensions=tuple(
                replace(one, value=der.integer(levels[one.oid.removeprefix(_ARC)]))
                if one.oid.removeprefix(_ARC) in levels
                else one
                for one in template.extensions
            ),
        )


def extended_chip(chip: SimulatedChip, spares: Mapping[str, int]) -> ExtendedChip:
    """Return a chip with spare levels (``spl4``)."""
    return ExtendedChip(**{one.name: getattr(chip, one.name) for one in fields(SimulatedChip)}, spares=spares)


def opaque_neighbours(kind: int, value: bytes) -> set[str]:
    """Return names that are near that of a value of opaque data: every other bit, length and type."""
    bits = {(int.from_bytes(value, "big") ^ 1 << bit).to_bytes(len(value), "big") for bit in range(8 * len(value))}
    near = {one.hex() for one in bits | {value + b"\0", b"\0" + value, value[:-1], value[1:], value[::-1]} - {value}}
    types = {str(other) for other in range(64)} - {str(kind)}
    return {f"{kind}:{one}" for one in near} | {f"{other}:{value.hex()}" for other in types} | {value.hex(), f"{kind}"}


def spl_neighbours(name: str, level: int) -> set[str]:
    """Return names that are near that of a spare level: every other level, and every other component."""
    levels = {f"{name}:{other}" for other in range(256) if other != level} | {name, f"{name}:0{level}"}
    return levels | {f"{other}:{level}" for other in (*SPLS, "spl3", "spl8") if other != name}
