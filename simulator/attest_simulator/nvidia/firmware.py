"""Measurements of simulated firmware: what a device reports, and the reference values that fit.

A reference value is derived from chip, firmware version and index alone, so that every device with the same firmware
reports the same, and every issue of a RIM names the same.

Spec: specs/nvidia-gpu.md, sections 3, 9.2 and 10.
"""

from __future__ import annotations

from collections.abc import Mapping

from attest_simulator.nvidia.keys import derived_bytes
from attest_simulator.nvidia.products import Product

__all__ = ["DIGEST_BYTES", "driver_values", "firmware_values", "measurements_of"]

DIGEST_BYTES = 48
_ZERO = bytes(DIGEST_BYTES)
_BY_MODE = 12
"""Hopper's index that is zero in a single GPU and something else behind protected PCIe, as recorded."""


def firmware_values(product: Product, vbios: str) -> Mapping[int, tuple[bytes, ...]]:
    """Return the reference values of a VBIOS or a switch's BIOS by index, alternatives in order."""
    return {index: _values(product, "firmware", vbios, index) for index in sorted(product.firmware_active)}


def driver_values(product: Product, driver: str) -> Mapping[int, tuple[bytes, ...]]:
    """Return the reference values of a driver by index, alternatives in order; none for a switch."""
    return {index: _values(product, "driver", driver, index) for index in sorted(product.driver_active)}


def measurements_of(product: Product, *, driver: str, vbios: str, protected_pcie: bool = False) -> tuple[bytes, ...]:
    """Return what a device measures: its reference values, and at indices that no RIM judges something or zero.

    Args:
        product: what kind of device.
        driver: version of the driver; counts for nothing with a switch.
        vbios: version of the VBIOS or BIOS, as text.
        protected_pcie: whether several GPUs are behind protected PCIe.

    Returns:
        48 bytes for each block of a report.
    """
    values = {**firmware_values(product, vbios), **driver_values(product, driver)}
    chosen = {index: alternatives[0] for index, alternatives in values.items()}
    if protected_pcie and _BY_MODE in values and len(values[_BY_MODE]) > 1:
        chosen[_BY_MODE] = values[_BY_MODE][1]
    return tuple(chosen.get(index, _ZERO) for index in range(product.blocks))


def _values(product: Product, kind: str, version: str, index: int) -> tuple[bytes, ...]:
    """Derive the alternatives of an index; the first is zero where the index is unused or depends on the mode."""
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
