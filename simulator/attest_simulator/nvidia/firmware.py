"""Measurements of simulated firmware, with matching reference values.

A reference value is derived from chip, firmware version and index alone: all devices with the same firmware
report the same values, and all issues of a RIM contain the same.

Spec: specs/nvidia-gpu.md, sections 3, 9.2 and 10.
"""

from __future__ import annotations

from collections.abc import Mapping

from attest_simulator.nvidia.keys import derived_bytes
from attest_simulator.nvidia.products import Product

DIGEST_BYTES = 48
_ZERO = bytes(DIGEST_BYTES)
_BY_MODE = 12
"""Hopper's index that is zero in a single GPU and nonzero behind protected PCIe, as recorded."""


def firmware_values(product: Product, vbios: str) -> Mapping[int, tuple[bytes, ...]]:
    """Return the reference values of a VBIOS or a switch's BIOS by index, alternatives in order."""
    return {index: _values(product, "firmware", vbios, index) for index in sorted(product.firmware_active)}


def driver_values(product: Product, driver: str) -> Mapping[int, tuple[bytes, ...]]:
    """Return the reference values of a driver by index, alternatives in order; none for a switch."""
    return {index: _values(product, "driver", driver, index) for index in sorted(product.driver_active)}


def measurements_of(product: Product, *, driver: str, vbios: str, protected_pcie: bool = False) -> tuple[bytes, ...]:
    """Return a device's measurements: its reference values, and nonzero or zero values at unreferenced indices.

    Args:
        product: kind of device.
        driver: version of the driver; ignored for a switch.
        vbios: version of the VBIOS or BIOS, as text.
        protected_pcie: several GPUs behind protected PCIe.

    Returns:
        48 bytes for each block of a report.
    """
    values = {**firmware_values(product, vbios), **driver_values(product, driver)}
    chosen = {index: alternatives[0] for index, alternatives in values.items()}
    if protected_pcie and _BY_MODE in values and len(values[_BY_MODE]) > 1:
        chosen[_BY_MODE] = values[_BY_MODE][1]
    return tuple(chosen.get(index, _ZERO) for index in range(product.blocks))


def _values(product: Product, kind: str, version: str, index: int) -> tuple[bytes, ...]:
    """Return the alternatives of an index; the first is zero if the index is unused or depends on the mode."""
    if index in product.unused:
        return (_ZERO,)
    count = product.alternatives.get(index, 1)
    zero_first = index == _BY_MODE and count > 1 and not product.is_switch
    return tuple(
        _ZERO
        if zero_first and number == 0
        else derived_bytes(DIGEST_BYTES, "measurement", product.chip, kind, version, str(index), str(number))
        for number in range(count)
    )
