"""`attest measure snp`: recorded digests, a second reading of the digest chain, and firmware that is none."""

import json
from hashlib import sha384
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from attest.measure import SnpLaunch, Vmm, launch_digest, parse_firmware, vcpu_types
from tests.cli.conftest import Attest, Document
from tests.conftest import vectors_root

ROOT = vectors_root()
CASES = json.loads((ROOT / "sev-snp/measure/MANIFEST.json").read_text())["cases"] if ROOT else []


@pytest.fixture
def firmware(vectors_dir: Path) -> Path:
    return vectors_dir / "sev-snp/measure/ovmf_AmdSev_suffix.bin"


@pytest.mark.skipif(not CASES, reason="no recorded digests here; set ATTEST_VECTORS to their folder")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_recorded_digests(attest: Attest, tmp_path: Path, firmware: Path, case: Document) -> None:
    options: list[object] = ["--ovmf", firmware, "--vcpus", case["vcpus"], "--vmm", case["vmm"].lower()]
    options += ["--guest-features", case["guest_features"]]
    if case["vcpu_type"]:
        options += ["--vcpu-type", case["vcpu_type"]]
    for part in ("kernel", "initrd"):
        if case[f"{part}_utf8"] is not None:
            (tmp_path / part).write_text(case[f"{part}_utf8"])
            options += [f"--{part}", part]
    if case["cmdline"] is not None:
        options += ["--cmdline", case["cmdline"]]
    assert attest("measure", "snp", *options).out == case["launch_digest"] + "\n"


# -- the digest chain once more, written from the specification and not from the package


def page_info(digest: bytes, contents: bytes, kind: int, gpa: int) -> bytes:
    """PAGE_INFO: 0x70 bytes."""
    info = digest + contents + (0x70).to_bytes(2, "little") + bytes([kind, 0, 0, 0, 0, 0]) + gpa.to_bytes(8, "little")
    assert len(info) == 0x70
    return info


def test_the_digest_chain_step_by_step(vectors_dir: Path) -> None:
    manifest = json.loads((vectors_dir / "sev-snp/measure/MANIFEST.json").read_text())
    zeros, empty_page = bytes(48), sha384(bytes(4096)).digest()
    steps = [
        (empty_page, 1, 0xFFFFF000),
        (zeros, 3, 0x800000),
        (zeros, 4, 0x801000),
        (zeros, 5, 0x80D000),
        (zeros, 6, 0x80E000),
        (empty_page, 2, 0xFFFFFFFFF000),
    ]
    digest = bytes(48)
    for (contents, kind, gpa), recorded in zip(steps, manifest["gctx_steps"], strict=True):
        digest = sha384(page_info(digest, contents, kind, gpa)).digest()
        assert digest.hex() == recorded["ld"], recorded["step"]


def test_the_firmware_alone(vectors_dir: Path, firmware: Path) -> None:
    """The first step for this firmware: one page below 4 GiB."""
    manifest = json.loads((vectors_dir / "sev-snp/measure/MANIFEST.json").read_text())
    contents = sha384(firmware.read_bytes()).digest()
    assert sha384(page_info(bytes(48), contents, 1, 0xFFFFF000)).hexdigest() == manifest["firmware_only_digest"]


# -- the command


def test_one_image_has_a_measurement_for_each_number_of_processors(attest: Attest, firmware: Path) -> None:
    common = ("measure", "snp", "--ovmf", firmware, "--vcpu-type", "EPYC-Genoa", "--vcpus")
    ran = attest(*common, "1,2,4,2", "--json")
    assert ran.document["schema"] == "attest.measurement/1"
    assert [row["vcpus"] for row in ran.document["measurements"]] == [1, 2, 4]
    assert len({row["measurement"] for row in ran.document["measurements"]}) == 3
    assert [line.split()[0] for line in attest(*common, "1,2").out.splitlines()] == ["1", "2"]


def test_a_snippet_is_a_part_of_a_policy_that_loads(attest: Attest, firmware: Path, tmp_path: Path) -> None:
    from attest.policy import load_policy

    (tmp_path / "kernel").write_bytes(b"kernel")
    ran = attest(
        *("measure", "snp", "--ovmf", firmware, "--vcpu-type", "EPYC-Genoa", "--vcpus", "1,2", "--name", "build-7"),
        *("--kernel", "kernel", "--cmdline", "quote ' and \" and: colon # hash", "--policy-snippet"),
    )
    assert ran.code == 0
    rest = (
        "schema: attest.policy/1\nname: p\nversion: 1\nsnp:\n  products: [Genoa]\n  measurement: [build-7]\n"
        "  minimum_tcb: {unchecked: test}\n"
    )
    policy = load_policy((ran.out + rest).encode())
    assert any("build-7" in rule.expected for rule in policy.rules["sev-snp"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--vcpus", "0"], "0 virtual processors"),
        (["--vcpus", "5000"], "virtual processors"),
        (["--vcpus", "1,,2"], "numbers with commas"),
        (["--vcpus", "x"], "numbers with commas"),
        (["--vcpus", ",".join(map(str, range(1, 300)))], "numbers with commas"),
        (["--vcpu-type", "Pentium"], "no virtual processor is called 'Pentium'"),
        (["--initrd", "absent"], "together with a kernel"),
        (["--cmdline", "x"], "together with a kernel"),
        (["--kernel", "absent"], "cannot be read"),
        (["--guest-features", "0x2"], "guest features"),
        (["--guest-features", "many"], "expected a number"),
        (["--ovmf", "absent"], "cannot be read"),
        (["--ovmf", "."], "cannot be read"),
        (["--policy-snippet", "--json"], "both use"),
        (["--vmm", "xen"], "xen"),
    ],
)
def test_what_cannot_be_measured(attest: Attest, firmware: Path, options: list[str], said: str) -> None:
    usual = ["--ovmf", str(firmware), "--vcpus", "1", "--vcpu-type", "EPYC"]
    ran = attest("measure", "snp", *usual, *options)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "hint: " in ran.err


def test_qemu_guests_need_a_type(attest: Attest, firmware: Path) -> None:
    ran = attest("measure", "snp", "--ovmf", firmware, "--vcpus", "1")
    assert ran.code == 2
    assert attest("measure", "snp", "--ovmf", firmware, "--vcpus", "1", "--vmm", "gce").code == 0
    assert "EPYC-Genoa" in vcpu_types()


def broken(firmware: bytes) -> dict[str, bytes]:
    from uuid import UUID

    metadata = UUID("dc886566-984a-4798-a75e-5585a7bf67cc").bytes_le
    reset = UUID("00f771de-1a7e-4fcb-890e-68c77e2fb44e").bytes_le
    footer = UUID("96b582de-1fb2-45f7-baea-a366c55a082d").bytes_le
    asev = firmware.index(b"ASEV")

    def patched(at: int, data: bytes) -> bytes:
        return firmware[:at] + data + firmware[at + len(data) :]

    return {
        "empty": b"",
        "no whole pages": firmware[1:],
        "zeros": bytes(4096),
        "no footer": firmware.replace(footer, bytes(16)),
        "a footer of no size": patched(firmware.index(footer) - 2, b"\0\0"),
        "a footer beyond the start": patched(firmware.index(footer) - 2, b"\xff\xff"),
        "no metadata": firmware.replace(metadata, bytes(16)),
        "no reset block": firmware.replace(reset, bytes(16)),
        "an entry of no size": patched(firmware.index(reset) - 2, b"\0\0"),
        "two entries of one kind": firmware.replace(reset, metadata),
        "metadata outside": patched(firmware.index(metadata) - 6, b"\xff\xff\xff\xff"),
        "metadata at its end": patched(firmware.index(metadata) - 6, b"\x10\0\0\0"),
        "metadata of another kind": patched(asev, b"ASXX"),
        "metadata of another version": patched(asev + 8, b"\x02\0\0\0"),
        "no section": patched(asev + 12, b"\0\0\0\0"),
        "a million sections": patched(asev + 12, b"\0\0\x10\0"),
        "a section of unknown type": patched(asev + 16 + 8, b"\x77\0\0\0"),
        "a section of half a page": patched(asev + 16 + 4, b"\x01\0\0\0"),
        "four gigabytes of zero pages": patched(asev + 16 + 4, b"\0\xf0\xff\xff"),
    }


@pytest.mark.parametrize(
    "name",
    broken(
        b"ASEV"
        + bytes(64)
        + b"".join(
            __import__("uuid").UUID(guid).bytes_le
            for guid in (
                "dc886566-984a-4798-a75e-5585a7bf67cc",
                "00f771de-1a7e-4fcb-890e-68c77e2fb44e",
                "96b582de-1fb2-45f7-baea-a366c55a082d",
            )
        )
    ),
)
def test_firmware_that_is_none(attest: Attest, tmp_path: Path, firmware: Path, name: str) -> None:
    (tmp_path / "ovmf").write_bytes(broken(firmware.read_bytes())[name])
    ran = attest("measure", "snp", "--ovmf", "ovmf", "--vcpus", "1", "--vcpu-type", "EPYC")
    assert (ran.code, ran.out) == (2, "")
    assert "no firmware that can be measured" in ran.err


def test_a_kernel_with_firmware_that_does_not_measure_it(attest: Attest, tmp_path: Path, firmware: Path) -> None:
    from uuid import UUID

    table = UUID("7255371f-3a3b-4b04-927b-1da6efa8d454").bytes_le
    (tmp_path / "ovmf").write_bytes(firmware.read_bytes().replace(table, bytes(16)))
    (tmp_path / "kernel").write_bytes(b"kernel")
    usual = ("measure", "snp", "--ovmf", "ovmf", "--vcpus", "1", "--vcpu-type", "EPYC")
    ran = attest(*usual, "--kernel", "kernel")
    assert ran.code == 2
    assert "would not be measured" in ran.err
    assert attest(*usual).code == 0


@pytest.mark.parametrize("what", ["a table across two pages", "a section of two pages"])
def test_what_the_package_itself_refuses_is_an_error_with_a_name(
    attest: Attest, tmp_path: Path, firmware: Path, what: str
) -> None:
    from uuid import UUID

    data = bytearray(firmware.read_bytes())
    table = data.index(UUID("7255371f-3a3b-4b04-927b-1da6efa8d454").bytes_le)
    begin = data.index(b"ASEV")
    kinds = [int.from_bytes(data[at : at + 4], "little") for at in range(begin + 24, begin + 24 + 12 * 8, 12)]
    section = begin + 16 + 12 * kinds.index(0x10)
    if what == "a table across two pages":
        entry = table - 2 - 8  # base and size stand before the entry's own size
        data[entry : entry + 2] = b"\xf0\x0f"
    else:
        data[section + 4 : section + 8] = (0x2000).to_bytes(4, "little")
    (tmp_path / "ovmf").write_bytes(data)
    (tmp_path / "kernel").write_bytes(b"kernel")
    usual = ("measure", "snp", "--ovmf", "ovmf", "--vcpus", "1", "--vcpu-type", "EPYC")
    ran = attest(*usual, "--kernel", "kernel")
    assert (ran.code, ran.out) == (2, "")
    assert "it cannot be measured" in ran.err


@given(st.binary(max_size=300), st.integers(0, 300), st.binary(min_size=1, max_size=8))
def test_any_bytes_are_measured_or_refused_by_name(tail: bytes, at: int, patch: bytes) -> None:
    image = bytearray(4096 - len(tail)) + bytearray(tail)
    image[4096 - 32 - at : 4096 - 32 - at + len(patch)] = patch
    try:
        parse_firmware(bytes(image[:4096]), name="x")
    except ConfigurationError as exc:
        assert exc.code == "measure-firmware-invalid"  # noqa: PT017  a total function: returns or raises this


def test_a_patched_image_is_measured_or_refused_by_name(firmware: Path, tmp_path: Path) -> None:
    """Every byte of the tables, set to 0 and to 255: a digest or a documented error, quickly."""
    data = firmware.read_bytes()
    begin = data.index(b"ASEV")
    path = tmp_path / "ovmf"
    positions = [*range(begin, begin + 120), *range(4096 - 200, 4096 - 32)]
    for at in positions:
        for value in (0, 255):
            path.write_bytes(data[:at] + bytes([value]) + data[at + 1 :])
            try:
                digest = launch_digest(SnpLaunch(firmware=path, vcpus=1, vmm=Vmm.GCE))
            except ConfigurationError:
                continue
            assert len(digest) == 48
