"""Devices of the NVIDIA commands: a machine's devices, bundles, and a service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256

import click

from attest.clock import this_second
from attest.endorsements.bundle import build_bundle
from attest.endorsements.bundle_records import BundleEntry
from attest.evidence.binding import Binding
from attest.evidence.envelope import Evidence, EvidenceItem
from attest_simulator.cli.choices import NONCE_BYTES, DeviceChoice
from attest_simulator.cli.services import SOURCE, Answer, serve
from attest_simulator.nvidia import SimulatedBoard, SimulatedNvidiaService, SimulatedOcsp, bound_evidence
from attest_simulator.nvidia.rims import rim_answer

_NOBODY = Binding(
    context="channel/v1",
    role="service",
    audience="attest simulate",
    nonce=bytes(NONCE_BYTES),
    key=sha256(b"attest simulate, no key").digest(),
)
"""Default key in a machine's binding: it does not exist."""


def board_of(devices: DeviceChoice) -> SimulatedBoard:
    """Return the devices of the options."""
    board = SimulatedBoard.of(
        devices.board,
        architecture=devices.architecture,
        driver=devices.driver,
        gpus=devices.gpus,
        switches=devices.switches,
    )
    return replace(board, gpus=tuple(replace(gpu, dev_tools_mode=devices.dev_tools) for gpu in board.gpus))


def machine_evidence(
    devices: DeviceChoice, nonce: bytes | None, collect: Callable[[bytes], tuple[EvidenceItem, ...]]
) -> Evidence:
    """Return evidence of a machine: the devices under a nonce of the binding, then the CPU, which commits to them.

    Args:
        devices: of the machine.
        nonce: the Relying Party's, 32 bytes; None means zeros.
        collect: returns the CPU's items for 64 bytes of REPORT_DATA.

    Raises:
        UsageError: a nonce of another length.
    """
    if nonce is not None and len(nonce) != NONCE_BYTES:
        raise click.UsageError(f"--nonce: with --gpus or --switches exactly {NONCE_BYTES} bytes, got {len(nonce)}")
    asked = replace(_NOBODY, nonce=nonce or _NOBODY.nonce)
    return bound_evidence(asked, board_of(devices).devices, collect)


def device_bundle(board: SimulatedBoard, *, at: datetime, days: int) -> bytes:
    """Return a bundle with RIMs and OCSP answers of all devices, valid from ``at`` for some days."""
    ocsp = SimulatedOcsp.of(at, days=days + 1)  # answers cover whole days, including the bundle's last hours
    rims = {rim.id: rim for _, device in board.devices for rim in device.rims(at=at)}
    entries = (
        *(BundleEntry(kind="nvidia-rim", source=SOURCE, data=rim_answer(rim)) for rim in rims.values()),
        *(
            BundleEntry(kind="nvidia-ocsp", source=SOURCE, data=answer.der)
            for answer in board.endorsements(at=at, ocsp=ocsp).ocsp
        ),
    )
    return build_bundle(entries, created=at, expires=at + timedelta(days=days)).to_bytes()


def serve_nvidia(port: int) -> int:
    """Serve a simulated NVIDIA until interrupted; print its address first.

    Raises:
        ConfigurationError: ``address-in-use``.
    """

    def get(path: str, query: str) -> Answer:
        del query
        found = SimulatedNvidiaService.of(this_second()).answer(path)
        return Answer(found.status, {"Content-Type": found.content_type}, found.body)

    def post(path: str, body: bytes) -> Answer:
        del path
        found = SimulatedNvidiaService.of(this_second()).answer_ocsp(body)
        return Answer(found.status, {"Content-Type": found.content_type}, found.body)

    return serve(port, get, post)
