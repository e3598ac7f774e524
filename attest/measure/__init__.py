"""The measurement that a guest will have, computed from the files that it is launched from.

These modules read files, so they stand beside ``attest.fetch`` and not in the pure core. What computes is pure.
"""

from __future__ import annotations

from attest.measure.snp import SnpLaunch, Vmm, launch_digest, parse_firmware, vcpu_types

__all__ = ["SnpLaunch", "Vmm", "launch_digest", "parse_firmware", "vcpu_types"]
