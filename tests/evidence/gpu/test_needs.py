"""What has to be fetched for a device, named without trusting anything of it."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.endorsements.rims import RimDocument
from attest.evidence.gpu.evidence import parse_nvidia_device
from attest.evidence.gpu.needs import needed_rims, needed_statuses
from attest_simulator.nvidia import SimulatedGpu, SimulatedNvSwitch
from tests.evidence.gpu import made
from tests.evidence.gpu.made_chain import BLACKWELL, SWITCH, MadeDevice, name
from tests.evidence.gpu.made_rim import CHAIN, body
from tests.evidence.gpu.made_rim import made as made_rim

AT = datetime(2026, 7, 1, tzinfo=UTC)


def ids(device: MadeDevice) -> list[str]:
    return [request.id for request in needed_rims(device.evidence(), NO_ENDORSEMENTS)]


def opaque_without(*types: int) -> bytes:
    return made.opaque(tuple(entry for entry in made.GPU_ENTRIES if entry[0] not in types))


def test_a_gpu_needs_two_rims_and_a_switch_one() -> None:
    assert ids(MadeDevice()) == ["NV_GPU_DRIVER_GH100_590.12", "NV_GPU_VBIOS_G520_0200_885_960074001A"]
    assert ids(SWITCH) == ["NV_SWITCH_BIOS_5612_0002_890_9610730001"]


def test_a_blackwell_gpu_names_its_chip_or_is_taken_for_a_gb100() -> None:
    assert ids(BLACKWELL)[0] == "NV_GPU_CC_DRIVER_GB202_590.12"
    assert ids(replace(BLACKWELL, entries=opaque_without(35)))[0] == "NV_GPU_CC_DRIVER_GB100_590.12"


def test_a_raw_report_needs_its_certificates_first() -> None:
    device = MadeDevice()
    assert needed_rims(device.raw(), NO_ENDORSEMENTS) == ()
    assert needed_rims(device.raw(), device.pool()) == needed_rims(device.evidence(), NO_ENDORSEMENTS)


@pytest.mark.parametrize("gone", [6, 15, 17, 18])
def test_a_vbios_that_cannot_be_named_is_left_out(gone: int) -> None:
    assert ids(MadeDevice(entries=opaque_without(gone))) == ["NV_GPU_DRIVER_GH100_590.12"]


def test_a_driver_that_cannot_be_named_is_left_out() -> None:
    assert [i[:12] for i in ids(MadeDevice(entries=opaque_without(3)))] == ["NV_GPU_VBIOS"]
    assert [i[:12] for i in ids(MadeDevice(entries=made.opaque(t3=b"../etc")))] == ["NV_GPU_VBIOS"]


def test_a_switch_bios_that_cannot_be_named_is_left_out() -> None:
    entries = tuple(entry for entry in made.SWITCH_ENTRIES if entry[0] != 6)
    assert ids(replace(SWITCH, entries=made.opaque(entries))) == []
    wrong = replace(SWITCH, entries=made.opaque(), count=64)
    assert ids(wrong) == []
    assert len(needed_statuses(wrong.evidence(), NO_ENDORSEMENTS, (made_rim(),))) == 3


def test_a_device_of_no_known_kind_needs_no_rim_and_its_statuses_all_the_same() -> None:
    for common_name, serial in (("GR100 A01", "41AABBCCDDEEFF0011"), ("GH100 A01", "41")):
        subject = name(common_name, serial)
        device = MadeDevice(device={"subject": subject}, leaf={"issuer": subject})
        assert ids(device) == []
        assert len(needed_statuses(device.evidence(), NO_ENDORSEMENTS, ())) == 3


def test_statuses_of_a_device_are_those_of_l4_l3_and_l2() -> None:
    device = MadeDevice()
    chain = device.certificates()
    expected = [(c.name, c.serial, issuer.as_issuer()) for c, issuer in pairwise(chain[1:])]
    for parsed, pool in ((device.evidence(), NO_ENDORSEMENTS), (device.raw(), device.pool())):
        found = needed_statuses(parsed, pool, ())
        assert [(request.name, request.serial, request.issuer) for request in found] == expected


def test_without_a_root_there_is_nobody_to_ask_about_the_device() -> None:
    device = MadeDevice()
    assert needed_statuses(device.evidence(chain=device.certificates()[:4]), NO_ENDORSEMENTS, ()) == ()
    assert needed_statuses(device.evidence(chain=()), NO_ENDORSEMENTS, ()) == ()
    assert needed_statuses(device.evidence(chain=device.certificates()[1:]), NO_ENDORSEMENTS, ()) == ()


def test_signers_of_fitting_rims_are_asked_about_and_no_others() -> None:
    device = MadeDevice(entries=made.opaque(t3=b"1.2.3\0"))
    fitting, other = made_rim(body(version="1.2.3")), made_rim(body(version="1.2.4"))
    short = made_rim(body(version="1.2.3"), certificates=CHAIN[:3])
    unreadable = RimDocument(xml=b"1.2.3")
    found = needed_statuses(device.evidence(), NO_ENDORSEMENTS, (other, short, unreadable, fitting, fitting))
    assert [request.name for request in found[3:]] == ["Made RIM Signer", "Made RIM L3", "Made RIM L2"]
    assert found[5].issuer.name == "Made RIM Root"


@pytest.mark.parametrize("device", [SimulatedGpu.of(), SimulatedNvSwitch.of()], ids=["gpu", "switch"])
def test_what_is_needed_of_a_simulated_device_is_what_its_vendor_hands_out(
    device: SimulatedGpu | SimulatedNvSwitch,
) -> None:
    parsed = parse_nvidia_device(device.device_item(bytes(32)))
    pool = device.endorsements(at=AT)
    assert {request.id for request in needed_rims(parsed, pool)} == {rim.id for rim in device.rims(at=AT)}
    needed = needed_statuses(parsed, pool, pool.rims)
    assert len(needed) == len(set(needed)) == len(pool.ocsp)
    for request in needed:
        assert any(answer.concerns(request.serial, request.issuer) for answer in pool.ocsp)


def test_recorded_devices_need_what_the_spec_names(vectors_dir: Path) -> None:
    gpu = json.dumps(made.board(vectors_dir, "gpu")[0]).encode()
    parsed = parse_nvidia_device(gpu)
    assert [r.id for r in needed_rims(parsed, NO_ENDORSEMENTS)] == [
        "NV_GPU_DRIVER_GH100_590.12",
        "NV_GPU_VBIOS_G520_0200_885_9600A50001",
    ]
    assert parsed.chain is not None
    rootless = replace(parsed, chain=parsed.chain[:4])
    found = needed_statuses(rootless, NO_ENDORSEMENTS, ())
    assert found == needed_statuses(parsed, NO_ENDORSEMENTS, ())  # the held root is the recorded one
    assert found[2].issuer.subject == parsed.chain[4].subject
    assert base64.b64decode(made.board(vectors_dir, "gpu")[0]["evidence"]) == parsed.report.raw


def test_naming_needs_verifies_nothing() -> None:
    forged = MadeDevice(l3={"signer": MadeDevice().key})
    assert needed_rims(forged.evidence(), NO_ENDORSEMENTS)
    assert len(needed_statuses(forged.evidence(), Endorsements(), ())) == 3
