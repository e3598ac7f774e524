"""Published images of dstack: files that their list names, and the machine as its configuration describes it."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from attest.measure import (
    KernelHeader,
    PageOrder,
    dstack_launch,
    parse_vm_config,
    read_dstack_image,
    read_vm_config,
    tdx_measurements,
)
from tests.measure.made import blank_variables, kernel, ovmf

METADATA = {
    "bios": "ovmf.fd",
    "kernel": "bzImage",
    "initrd": "initramfs.cpio.gz",
    "rootfs": "rootfs.img",
    "cmdline": "console=ttyS0 dstack.rootfs_hash=00",
    "version": "0.5.5",
}
CONFIG = {"memory_size": 8 << 30, "cpu_count": 4, "qemu_version": "9.2.1"}


def write_image(folder: Path, metadata: object = METADATA) -> Path:
    contents = {
        "ovmf.fd": ovmf(blank_variables()),
        "bzImage": kernel(),
        "initramfs.cpio.gz": b"initial RAM disk",
        "metadata.json": json.dumps(metadata).encode(),
    }
    sums = "".join(f"{sha256(data).hexdigest()}  {name}\n" for name, data in contents.items())
    contents |= {"sha256sum.txt": sums.encode()}
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return folder


def config(**members: object) -> bytes:
    return json.dumps(CONFIG | members).encode()


def refusal(folder: Path) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as refused:
        read_dstack_image(folder)
    assert refused.value.hint
    return refused.value


def test_an_image_and_its_machine_give_a_launch(tmp_path: Path) -> None:
    image = read_dstack_image(write_image(tmp_path))
    assert image.os_image == sha256((tmp_path / "sha256sum.txt").read_bytes()).digest()
    launch = dstack_launch(image, parse_vm_config(config()), page_order=None, acpi_tables=None)
    assert (launch.memory, launch.page_order, launch.kernel_header) == (
        8 << 30,
        PageOrder.BY_PAGE,
        KernelHeader.PATCHED,
    )
    assert set(tdx_measurements(launch).registers) == {"mr_td", "rtmr1", "rtmr2"}
    assert launch.cmdline == METADATA["cmdline"]


@pytest.mark.parametrize("name", ["ovmf.fd", "bzImage", "initramfs.cpio.gz", "metadata.json"])
def test_a_file_that_is_not_the_listed_one(tmp_path: Path, name: str) -> None:
    write_image(tmp_path)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes() + b" ")
    refused = refusal(tmp_path)
    assert refused.code == "measure-image-invalid"
    assert f"{name} is not the file" in refused.message


@pytest.mark.parametrize("name", ["ovmf.fd", "bzImage", "initramfs.cpio.gz", "metadata.json", "sha256sum.txt"])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    write_image(tmp_path)
    (tmp_path / name).unlink()
    assert refusal(tmp_path).code == "measure-file-unreadable"


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ([], "no JSON object"),
        ({**METADATA, "kernel": None}, "no text 'kernel'"),
        ({**METADATA, "kernel": "../bzImage"}, "names a file"),
        ({**METADATA, "bios": ""}, "names a file"),
        ({name: value for name, value in METADATA.items() if name != "cmdline"}, "no text 'cmdline'"),
        ({name: value for name, value in METADATA.items() if name != "version"}, "not three numbers"),
        ({**METADATA, "version": "five"}, "not three numbers"),
    ],
)
def test_metadata_that_describes_no_image(tmp_path: Path, metadata: object, said: str) -> None:
    assert said in refusal(write_image(tmp_path, metadata)).message


@pytest.mark.parametrize("sums", [b"\xff", b"no digest\n", b"00  ovmf.fd\n", b""])
def test_a_list_of_digests_that_is_none(tmp_path: Path, sums: bytes) -> None:
    write_image(tmp_path)
    (tmp_path / "sha256sum.txt").write_bytes(sums)
    assert refusal(tmp_path).code == "measure-image-invalid"


def test_a_name_twice_in_the_list_is_refused(tmp_path: Path) -> None:
    write_image(tmp_path)
    sums = (tmp_path / "sha256sum.txt").read_bytes()
    (tmp_path / "sha256sum.txt").write_bytes(sums + b"0" * 64 + b"  bzImage\n")
    assert "a name twice" in refusal(tmp_path).message


@pytest.mark.parametrize(
    ("members", "known"),
    [
        ({"version": "0.5.8"}, True),
        ({"version": "0.5.9"}, False),
        ({"version": "0.6.0.dev"}, False),
        ({"version": "0.6.1", "ovmf_variant": "pre202505"}, True),
        ({"version": "0.5.5", "ovmf_variant": "stable202505"}, False),
    ],
)
def test_rtmr0_is_known_for_firmware_of_which_boots_are_recorded(
    tmp_path: Path, members: dict[str, str], known: bool
) -> None:
    image = read_dstack_image(write_image(tmp_path, METADATA | members))
    assert (image.unknown_rtmr0 is None) is known


def test_a_configuration_of_another_image(tmp_path: Path) -> None:
    image = read_dstack_image(write_image(tmp_path))
    own, other = config(os_image_hash=image.os_image.hex()), config(os_image_hash="00" * 32)
    assert dstack_launch(image, parse_vm_config(own), page_order=None, acpi_tables=None).memory == 8 << 30
    with pytest.raises(ConfigurationError, match="of another image"):
        dstack_launch(image, parse_vm_config(other), page_order=None, acpi_tables=None)


def test_an_order_of_pages_that_the_configuration_states_has_to_be_named(tmp_path: Path) -> None:
    image, stated = read_dstack_image(write_image(tmp_path)), parse_vm_config(config(qemu_single_pass_add_pages=True))
    with pytest.raises(ConfigurationError, match="opposite ways"):
        dstack_launch(image, stated, page_order=None, acpi_tables=None)
    launch = dstack_launch(image, stated, page_order=PageOrder.BY_SECTION, acpi_tables=None)
    assert launch.page_order is PageOrder.BY_SECTION


def test_a_configuration_within_the_answer_to_get_quote(tmp_path: Path) -> None:
    path = tmp_path / "answer"
    path.write_text(json.dumps({"quote": "00", "vm_config": config(qemu_version="8.2.2").decode()}))
    assert parse_vm_config(read_vm_config(path)).qemu == (8, 2)
    assert parse_vm_config(b'{"memory_size": 1}').qemu == (9, 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"memory_size": "8G"}',
        b'{"memory_size": true}',
        b'{"memory_size": -1}',
        b'{"memory_size": 1, "qemu_version": 9}',
        b'{"memory_size": 1, "qemu_version": "9.2"}',
        b'{"memory_size": 1, "os_image_hash": "00"}',
        b'{"memory_size": 1, "os_image_hash": 0}',
        b'{"vm_config": "[]"}',
    ],
)
def test_configurations_that_describe_no_machine(data: bytes) -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_vm_config(data)
    assert refused.value.code == "measure-image-invalid"


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: json.dumps({"vm_config": text}).encode()))
def test_any_bytes_are_a_configuration_or_refused_by_name(data: bytes) -> None:
    try:
        parse_vm_config(data)
    except ConfigurationError as exc:
        assert exc.code == "measure-image-invalid"  # noqa: PT017  a total function


def test_recorded_configurations_are_read(vectors_dir: Path) -> None:
    answer = (vectors_dir / "providers/near-direct/getquote.json").read_bytes()
    found = parse_vm_config(answer)
    assert (found.memory, found.qemu, found.page_order_stated) == (2 << 40, (9, 2), False)
    gateway = json.loads((vectors_dir / "providers/near-cloud/report.json").read_bytes())["gateway_attestation"]
    assert parse_vm_config(gateway["info"]["vm_config"].encode()).page_order_stated
