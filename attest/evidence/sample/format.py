"""Trustee's sample evidence as an evidence format: of a CPU, and of a device beside it."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from attest.checks import Check, Unchecked
from attest.errors import AttestError
from attest.evidence.device_format import CpuFormat, DeviceFormat, FormatTable, MediaFormat, PeripheralFormat
from attest.evidence.envelope import MEDIA_SAMPLE, MEDIA_SAMPLE_DEVICE
from attest.evidence.sample.claims import SAMPLE_CLAIMS, SAMPLE_DEVICE_CLAIMS
from attest.evidence.sample.structure import parse_sample
from attest.evidence.sample.verify import verify_sample


def _judge_set(
    _devices: Sequence[tuple[str, Any]],
    /,
    *,
    unchecked: tuple[Unchecked, ...],  # noqa: ARG001
) -> tuple[tuple[Check, ...], tuple[AttestError, ...]]:
    """Return nothing: sample devices have nothing in common."""
    return (), ()


SAMPLE = CpuFormat(
    kind="sample",
    report_data=attrgetter("padded_report_data"),
    verify=verify_sample,
    claims=SAMPLE_CLAIMS,
)
SAMPLE_DEVICE = DeviceFormat(kind="sample-device", claims=SAMPLE_DEVICE_CLAIMS)

SAMPLE_FORMATS = FormatTable(
    kinds=(SAMPLE, SAMPLE_DEVICE),
    cpus={MEDIA_SAMPLE: MediaFormat(parse=parse_sample, kind_of=lambda _: SAMPLE)},
    peripherals={
        MEDIA_SAMPLE_DEVICE: PeripheralFormat(
            parse=parse_sample,
            nonce=attrgetter("report_data"),
            nonce_bytes=None,
            verify=verify_sample,
            kind_of=lambda _: SAMPLE_DEVICE,
            judge_set=_judge_set,
        ),
    },
)
