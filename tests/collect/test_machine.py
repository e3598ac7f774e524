"""All evidence of a machine in one call: what comes out is what verification accepts."""

import contextlib
import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.checks import Unchecked
from attest.collect import THIS_MACHINE, collect_all, collect_machine, unasked_binding
from attest.collect.ioctl import SNP_GET_EXT_REPORT, SNP_GET_REPORT
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import CollectionError
from attest.evidence.binding import ExpectedBinding, parse_binding
from attest.evidence.envelope import (
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
    Evidence,
    parse_envelope,
)
from attest.release.exchange import Attester
from attest.verification import ExpectedFreshness, Freshness, VerifiedEvidence, verify
from attest_simulator.nvidia.device import device_endorsements
from tests.collect.fake_machine import (
    FakeMachine,
    FakeTdxGuest,
    old_snp_machine,
    plain_machine,
    simulated_td,
    snp_guest,
    snp_machine,
    tdx_machine,
    with_gpus,
)
from tests.samples import AT, NO_CRL, NONCE, binding

NOTHING = Endorsements()
EXPECTED = ExpectedBinding(
    context="kms-release/v1", role="workload", audience="kms.example/prod+00000000+AAAA", nonce=NONCE
)


def verified(
    evidence: Evidence,
    *,
    expected: ExpectedFreshness | ExpectedBinding,
    endorsements: Endorsements = NOTHING,
    unchecked: tuple[Unchecked, ...] = NO_CRL,
) -> VerifiedEvidence:
    """Verify what travelled, under the simulator's anchors."""
    return verify(
        parse_envelope(evidence.to_json()),
        endorsements=endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=expected,
        unchecked=unchecked,
    )


def refused(machine: FakeMachine, **options: object) -> CollectionError:
    with pytest.raises(CollectionError) as caught:
        collect_machine(NONCE, access=machine.access, **options)  # type: ignore[arg-type]
    assert caught.value.exit_code == 6
    assert caught.value.hint
    return caught.value


# -- end to end


def test_a_snp_guest_is_collected_under_a_binding_and_verified(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    evidence = collect_machine(binding(), access=machine.access)
    assert [item.name for item in evidence.items] == ["cpu", "binding"]
    assert evidence.items[0].media_type == MEDIA_SNP_EXTENDED
    found = verified(evidence, expected=EXPECTED)
    assert found.freshness is Freshness.MATCHED
    assert found.binding == binding()
    assert [item.kind for item in found.items] == ["sev-snp"]
    assert machine.tsm is not None
    assert machine.tsm.left == []


def test_a_nonce_stands_in_report_data(tmp_path: Path) -> None:
    evidence = collect_machine(b"question", access=snp_machine(tmp_path).access)
    assert [item.name for item in evidence.items] == ["cpu"]
    assert verified(evidence, expected=ExpectedFreshness(nonce=b"question")).freshness is Freshness.MATCHED


def test_all_of_report_data_can_be_given(tmp_path: Path) -> None:
    evidence = collect_machine(b"\x07" * 64, access=snp_machine(tmp_path).access)
    assert verified(evidence, expected=ExpectedFreshness(report_data=b"\x07" * 64)).freshness is Freshness.MATCHED


def test_a_td_is_collected_with_its_log_and_verified(tmp_path: Path) -> None:
    td = simulated_td()
    collected = collect_all(binding(), access=tdx_machine(tmp_path, td).access)
    assert [item.name for item in collected.evidence.items] == ["cpu", "eventlog", "binding"]
    assert (collected.tee, collected.interface, collected.notes) == ("tdx", "configfs-tsm", ())
    log = collected.evidence.item("eventlog")
    assert log is not None
    assert log.value == td.event_log()  # the area around it is not carried along
    found = verified(
        collected.evidence,
        expected=EXPECTED,
        endorsements=td.platform.collateral("tdx", at=AT).endorsements(),
        unchecked=(),
    )
    assert found.freshness is Freshness.MATCHED
    assert found.items[0].eventlog is not None


@pytest.mark.parametrize("make", [snp_machine, tdx_machine])
def test_a_cpu_commits_to_its_gpus(make: Callable[[Path], FakeMachine], tmp_path: Path) -> None:
    machine = with_gpus(make(tmp_path))
    endorsements = device_endorsements(machine.gpus, at=AT)
    if make is tdx_machine:
        endorsements = endorsements.merged(simulated_td().platform.collateral("tdx", at=AT).endorsements())
    collected = collect_all(binding(), access=machine.access)
    assert collected.gpus == 2
    found = verified(collected.evidence, expected=EXPECTED, endorsements=endorsements)
    assert sorted(item.name for item in found.items) == ["cpu", "gpu0", "gpu1"]
    assert found.binding is not None
    assert len(found.binding.devices) == 2


def test_a_nonce_and_gpus_are_tied_by_a_binding_to_nobody(tmp_path: Path) -> None:
    machine = with_gpus(snp_machine(tmp_path), 1)
    evidence = collect_machine(NONCE, access=machine.access)
    item = evidence.item("binding")
    assert item is not None
    bound = parse_binding(item.value)
    assert replace(bound, devices=()) == unasked_binding(NONCE)
    endorsements = device_endorsements(machine.gpus, at=AT)
    found = verified(evidence, expected=ExpectedFreshness(nonce=NONCE), endorsements=endorsements)
    assert found.freshness is Freshness.MATCHED


def test_gpus_are_left_out_when_they_are_not_wanted(tmp_path: Path) -> None:
    machine = with_gpus(snp_machine(tmp_path))
    evidence = collect_machine(NONCE, access=machine.access, with_gpus=False)
    assert [item.name for item in evidence.items] == ["cpu"]


def test_gpus_that_are_demanded_are_asked_for_even_if_no_driver_shows(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    machine.gpus = with_gpus(plain_machine(tmp_path / "other"), 1).gpus
    assert collect_all(NONCE, access=machine.access, with_gpus=True).gpus == 1


def test_the_log_is_left_out_when_it_is_not_wanted(tmp_path: Path) -> None:
    evidence = collect_machine(NONCE, access=tdx_machine(tmp_path).access, with_log=False)
    assert [item.name for item in evidence.items] == ["cpu"]


def test_a_td_without_a_log_says_so(tmp_path: Path) -> None:
    machine = tdx_machine(tmp_path)
    (tmp_path / "sys/firmware/acpi/tables/data/CCEL").unlink()
    collected = collect_all(NONCE, access=machine.access)
    assert [item.name for item in collected.evidence.items] == ["cpu"]
    assert collected.notes == ("this machine's firmware left no event log (CCEL)",)


def test_it_is_what_a_client_of_key_release_wants() -> None:
    attester: Attester = collect_machine
    assert attester is collect_machine
    assert THIS_MACHINE.root == Path("/")


@pytest.mark.parametrize("nonce", [b"", bytes(65)])
def test_a_nonce_of_another_length_is_wrong_use(nonce: bytes, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        collect_machine(nonce, access=snp_machine(tmp_path).access)


def test_a_nonce_that_no_gpu_takes_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        collect_machine(b"question", access=with_gpus(snp_machine(tmp_path)).access)


# -- VMPL


def test_the_lowest_vmpl_that_the_kernel_allows_is_taken(tmp_path: Path) -> None:
    evidence = collect_machine(NONCE, access=snp_machine(tmp_path, floor=2).access)
    assert verified(evidence, expected=ExpectedFreshness(nonce=NONCE)).items[0].claims["vmpl"] == 2


def test_a_vmpl_can_be_chosen(tmp_path: Path) -> None:
    evidence = collect_machine(NONCE, access=snp_machine(tmp_path, floor=2).access, vmpl=3)
    assert verified(evidence, expected=ExpectedFreshness(nonce=NONCE)).items[0].claims["vmpl"] == 3


def test_a_vmpl_below_the_kernels_own_is_refused(tmp_path: Path) -> None:
    error = refused(snp_machine(tmp_path, floor=2), vmpl=1)
    assert (error.code, error.expected, error.got) == ("vmpl-refused", "at least 2", "1")


def test_a_td_has_no_vmpl(tmp_path: Path) -> None:
    assert refused(tdx_machine(tmp_path), vmpl=0).code == "vmpl-refused"


def test_a_report_of_another_vmpl_is_refused(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    assert machine.tsm is not None
    machine.tsm.answer = lambda data, _: {"outblob": replace(snp_guest(), vmpl=3).report(data)}
    assert refused(machine).code == "vmpl-refused"


# -- what the kernel hands out


def test_a_report_without_certificates_is_a_report(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    assert machine.tsm is not None
    machine.tsm.answer = lambda data, _: {"outblob": snp_guest().report(data), "auxblob": b""}
    assert collect_machine(NONCE, access=machine.access).items[0].media_type == MEDIA_SNP_REPORT


def test_certificates_of_the_host_that_cannot_be_read_are_left_out_and_told(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    assert machine.tsm is not None
    machine.tsm.answer = lambda data, _: {"outblob": snp_guest().report(data), "auxblob": b"\x01" * 100}
    collected = collect_all(NONCE, access=machine.access)
    assert collected.evidence.items[0].media_type == MEDIA_SNP_REPORT
    assert "certificates were left out" in collected.notes[0]


@pytest.mark.parametrize("size", [0, 1, 1183, 1185])
def test_a_report_of_another_length_is_malformed(size: int, tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    assert machine.tsm is not None
    machine.tsm.answer = lambda data, _: {"outblob": snp_guest().report(data).ljust(1185, b"\0")[:size]}
    assert refused(machine).code == "collected-malformed"


def test_a_quote_that_is_cut_off_is_malformed(tmp_path: Path) -> None:
    machine = tdx_machine(tmp_path)
    assert machine.tsm is not None
    machine.tsm.answer = lambda data, _: {"outblob": simulated_td().quote(data)[:1000]}
    assert refused(machine).code == "collected-malformed"


@pytest.mark.parametrize("make", [snp_machine, tdx_machine])
def test_a_report_for_somebody_else_is_refused(make: Callable[[Path], FakeMachine], tmp_path: Path) -> None:
    machine = make(tmp_path)
    assert machine.tsm is not None
    honest = machine.tsm.answer
    machine.tsm.answer = lambda _, vmpl: honest(bytes(64), vmpl)
    error = refused(machine)
    assert (error.code, error.expected) == ("report-data-ignored", NONCE.ljust(64, b"\0").hex())


# -- kernels before configfs-tsm


def test_an_older_kernel_is_asked_by_its_device(tmp_path: Path) -> None:
    machine, device = old_snp_machine(tmp_path)
    collected = collect_all(binding(), access=machine.access)
    assert (collected.tee, collected.interface) == ("sev-snp", "sev-guest")
    assert device.calls == [SNP_GET_EXT_REPORT]
    assert verified(collected.evidence, expected=EXPECTED).binding == binding()


def test_the_kernels_own_vmpl_is_asked_of_the_device(tmp_path: Path) -> None:
    machine, _ = old_snp_machine(tmp_path)
    machine.has("sys/devices/system/cpu/sev/vmpl", "2\n")
    evidence = collect_machine(NONCE, access=machine.access)
    assert verified(evidence, expected=ExpectedFreshness(nonce=NONCE)).items[0].claims["vmpl"] == 2


def test_a_host_with_too_many_certificates_leaves_the_report(tmp_path: Path) -> None:
    machine, device = old_snp_machine(tmp_path)
    device.fails[SNP_GET_EXT_REPORT] = (errno.EIO, 0, 1)
    assert collect_machine(NONCE, access=machine.access).items[0].media_type == MEDIA_SNP_REPORT
    assert device.calls == [SNP_GET_EXT_REPORT, SNP_GET_REPORT]


def test_configfs_without_a_provider_gives_way_to_the_device(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    assert machine.tsm is not None
    machine.tsm.errors["make"] = [errno.ENXIO]
    assert collect_all(NONCE, access=machine.access).interface == "sev-guest"


def test_configfs_without_a_provider_and_without_a_device_is_refused(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    (tmp_path / "dev/sev-guest").unlink()
    assert machine.tsm is not None
    machine.tsm.errors["make"] = [errno.ENXIO]
    assert refused(machine).code == "tsm-provider-missing"


def test_configfs_without_a_provider_on_no_guest_is_no_tee(tmp_path: Path) -> None:
    machine = snp_machine(tmp_path)
    machine.has("proc/cpuinfo", "vendor_id: AuthenticAMD\nflags: fpu hypervisor\n")
    (tmp_path / "dev/sev-guest").unlink()
    assert machine.tsm is not None
    machine.tsm.errors["make"] = [errno.ENXIO]
    assert refused(machine).code == "tee-missing"


def test_a_td_report_is_no_quote(tmp_path: Path) -> None:
    machine = plain_machine(tmp_path, flags="hypervisor tdx_guest")
    machine.has("dev/tdx_guest")
    machine.device = FakeTdxGuest()
    error = refused(machine)
    assert error.code == "tdx-quote-unavailable"
    assert "configfs-tsm" in (error.hint or "")


@pytest.mark.parametrize(
    ("number", "code"), [(errno.EACCES, "collection-permission-denied"), (errno.ENOENT, "collection-failed")]
)
@pytest.mark.parametrize("device", ["sev-guest", "tdx_guest"])
def test_a_device_that_cannot_be_opened_is_named(device: str, number: int, code: str, tmp_path: Path) -> None:
    machine = plain_machine(tmp_path)
    machine.has(f"dev/{device}")
    machine.device_error = number
    error = refused(machine)
    assert (error.code, error.field) == (code, f"/dev/{device}")


# -- no TEE


def test_without_a_tee_that_is_said_and_nothing_is_asked(tmp_path: Path) -> None:
    machine = with_gpus(plain_machine(tmp_path))
    error = refused(machine)
    assert error.code == "tee-missing"
    assert "simulate" in (error.hint or "")


def test_a_guest_without_any_interface_is_told_what_to_load(tmp_path: Path) -> None:
    error = refused(plain_machine(tmp_path, flags="hypervisor sev_snp"))
    assert error.code == "tsm-missing"
    assert "modprobe sev-guest" in (error.hint or "")


# -- any bytes at all


@given(
    report=st.binary(max_size=1300), table=st.binary(max_size=200), provider=st.sampled_from(["sev_guest", "tdx_guest"])
)
@settings(max_examples=60, deadline=None)
def test_whatever_the_kernel_hands_out_is_evidence_or_refused(
    report: bytes, table: bytes, provider: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    machine = snp_machine(tmp_path_factory.mktemp("machine"))
    assert machine.tsm is not None
    machine.tsm.provider = provider
    machine.tsm.answer = lambda *_: {"outblob": report, "auxblob": table}
    with contextlib.suppress(CollectionError):
        collect_machine(NONCE, access=machine.access)
    assert machine.tsm.left == []


@given(table=st.binary(max_size=400))
@settings(max_examples=60, deadline=None)
def test_whatever_the_host_supplies_the_report_is_evidence(
    table: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    machine, device = old_snp_machine(tmp_path_factory.mktemp("machine"))
    device.table = table
    evidence = collect_machine(NONCE, access=machine.access)
    endorsements = snp_guest().chip.endorsements(at=AT)
    found = verified(evidence, expected=ExpectedFreshness(nonce=NONCE), endorsements=endorsements)
    assert found.freshness is Freshness.MATCHED
