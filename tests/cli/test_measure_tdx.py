"""`attest measure tdx`: the registers of a TD, for people, for programs and for a policy."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Attest
from tests.measure.made import acpi_tables, blank_variables, kernel, ovmf
from tests.measure.test_dstack import config, write_image

REGISTERS = ["mr_td", "rtmr0", "rtmr1", "rtmr2"]
WHOLE = (
    *("measure", "tdx", "--ovmf", "ovmf", "--kernel", "kernel", "--initrd", "initrd", "--cmdline", "console=ttyS0"),
    *("--qemu-version", "10.1.3", "--memory", "4G", "--acpi-tables", "tables"),
)


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "ovmf").write_bytes(ovmf(blank_variables()))
    (tmp_path / "kernel").write_bytes(kernel())
    (tmp_path / "initrd").write_bytes(b"initial RAM disk")
    (tmp_path / "tables").write_bytes(acpi_tables(("APIC", 120), ("MCFG", 60), ("WAET", 40), dsdt=0x2000))


def test_a_line_for_each_register(attest: Attest) -> None:
    ran = attest(*WHOLE)
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[0] for line in ran.out.splitlines()] == ["MRTD", "RTMR0", "RTMR1", "RTMR2"]
    assert {len(line.split()[1]) for line in ran.out.splitlines()} == {96}


def test_the_document_has_registers_and_their_events(attest: Attest) -> None:
    document = attest(*WHOLE, "--json").document
    assert (document["schema"], document["kind"]) == ("attest.measurement/1", "tdx")
    assert (document["page_order"], document["kernel_header"], document["memory"]) == (
        "single-pass",
        "patched",
        4 << 30,
    )
    assert list(document["measurements"][0]) == REGISTERS
    assert [event["name"] for event in document["events"]["rtmr2"]] == ["command line", "initial RAM disk"]
    assert document["missing"] == {}


def test_events_are_shown_on_request(attest: Attest) -> None:
    lines = attest(*WHOLE, "--verbose").out.splitlines()
    assert len(lines) == 4 + 13 + 5 + 2
    assert any(line.endswith("  TD HOB") for line in lines)


def test_a_register_that_is_not_known_is_a_warning(attest: Attest) -> None:
    ran = attest("measure", "tdx", "--ovmf", "ovmf")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 1
    assert ran.err.count("warning: RTMR") == 3
    assert "give --kernel" in ran.err
    document = attest("measure", "tdx", "--ovmf", "ovmf", "--json").document
    assert list(document["measurements"][0]) == ["mr_td"]
    assert list(document["missing"]) == REGISTERS[1:]


def test_a_snippet_is_a_part_of_a_policy_that_loads(attest: Attest) -> None:
    from attest.policy import load_policy

    ran = attest(*WHOLE, "--policy-snippet", "--name", "build-7")
    assert ran.code == 0
    rest = (
        "schema: attest.policy/1\nname: p\nversion: 1\ntdx:\n  mr_td: [build-7-mr-td]\n"
        "  rtmr0: [build-7-rtmr0]\n  rtmr1: [build-7-rtmr1]\n  rtmr2: [build-7-rtmr2]\n"
    )
    policy = load_policy((ran.out + rest).encode())
    assert any("build-7-rtmr0" in rule.expected for rule in policy.rules["tdx"])
    assert "memory 4096M" in ran.out
    assert "kernel-header patched" in ran.out


def test_the_version_of_qemu_states_what_may_be_stated_alone(attest: Attest) -> None:
    old = (*WHOLE[:10], "--memory", "4G")
    stated = attest(*old, "--qemu-version", "8.2").out
    assert stated == attest(*old, "--page-order", "two-pass", "--kernel-header", "patched").out
    assert stated != attest(*old, "--qemu-version", "9.0").out
    assert (
        attest(*old, "--qemu-version", "8.2", "--page-order", "single-pass").out
        == attest(*old, "--qemu-version", "9.0").out
    )


def test_firmware_with_secure_boot_has_another_rtmr0(attest: Attest) -> None:
    absent, off = (attest(*WHOLE, "--secure-boot", value).out.splitlines() for value in ("absent", "off"))
    assert [one == two for one, two in zip(absent, off, strict=True)] == [True, False, True, True]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--ovmf", "absent"], "cannot be read"),
        (["--ovmf", "kernel"], "no firmware that can be measured"),
        (["--kernel", "ovmf"], "no kernel that can be measured"),
        (["--acpi-tables", "ovmf"], "no ACPI tables"),
        (["--memory", "4"], "a size with its unit"),
        (["--memory", "4GB"], "a size with its unit"),
        (["--memory", "1M"], "bytes of memory"),
        (["--memory", "1000000T"], "bytes of memory"),
        (["--qemu-version", "ten"], "a version of QEMU"),
        (["--page-order", "one"], "one"),
        (["--secure-boot", "on"], "on"),
        (["--policy-snippet", "--json"], "both use"),
        (["--vm-config", "x"], "--vm-config is for --dstack-image"),
        (["--dstack-image", "x"], "follows from --dstack-image"),
        (["--cmdline", "ä"], "as they are"),
    ],
)
def test_what_cannot_be_measured(attest: Attest, options: list[str], said: str) -> None:
    ran = attest(*WHOLE, *options)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "hint: " in ran.err


def test_firmware_or_an_image_is_needed(attest: Attest) -> None:
    assert attest("measure", "tdx", "--memory", "4G").code == 2
    ran = attest("measure", "tdx", "--ovmf", "ovmf", "--kernel", "kernel")
    assert ran.code == 2
    assert "--qemu-version" in ran.err


def test_an_image_of_dstack(attest: Attest, tmp_path: Path) -> None:
    folder = tmp_path / "image"
    folder.mkdir()
    write_image(folder)
    (tmp_path / "config").write_bytes(config())
    usual = ("measure", "tdx", "--dstack-image", "image", "--vm-config", "config", "--acpi-tables", "tables")
    document = attest(*usual, "--json").document
    assert list(document["measurements"][0]) == REGISTERS
    assert len(document["os_image"]) == 64
    assert document["os_image"] in attest(*usual, "--policy-snippet").out
    assert "needs --vm-config" in attest(*usual[:4]).err
    (tmp_path / "config").write_bytes(config(qemu_single_pass_add_pages=True))
    assert "--page-order" in attest(*usual).err
    both = {attest(*usual, "--page-order", order).out.split()[1] for order in ("single-pass", "two-pass")}
    assert len(both) == 2
    (tmp_path / "config").write_text(json.dumps({"memory_size": "much"}))
    assert attest(*usual).code == 2
