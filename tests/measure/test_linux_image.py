"""The kernel as QEMU gives it to the firmware, and its Authenticode digest, written once more."""

import struct
from hashlib import sha384

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from attest.measure.linux_image import authenticode_sha384, patched_kernel
from tests.measure.made import kernel

GIB = 1 << 30


def patched(image: bytes, *, initrd_size: int = 0, memory: int = 4 * GIB) -> bytes:
    return patched_kernel(image, initrd_size=initrd_size, memory=memory, name="bzImage")


def digest(image: bytes) -> bytes:
    return authenticode_sha384(image, name="bzImage")


def number(image: bytes, at: int, size: int) -> int:
    return int.from_bytes(image[at : at + size], "little")


# -- the setup header


def test_qemu_writes_loader_heap_and_command_line_and_nothing_else() -> None:
    image = kernel()
    written = patched(image)
    assert (written[0x210], written[0x211]) == (0xB0, 0x81)
    assert number(written, 0x224, 2) == 0xFE00
    assert number(written, 0x228, 4) == 0x20000
    changed = {at for at, (old, new) in enumerate(zip(image, written, strict=True)) if old != new}
    assert changed <= {0x210, 0x211, *range(0x224, 0x226), *range(0x228, 0x22C)}


@pytest.mark.parametrize(
    ("memory", "highest"),
    [
        (GIB, GIB - 0x28001),
        (2 * GIB, 2 * GIB - 0x28001),
        (0xAFF00000, 0xAFF00000 - 0x28001),
        (0xB0000000, 2 * GIB - 0x28001),
        (64 * GIB, 2 * GIB - 0x28001),
    ],
)
def test_the_initial_ram_disk_is_as_high_as_the_memory_below_four_gibibytes_allows(memory: int, highest: int) -> None:
    written = patched(kernel(), initrd_size=0x12345, memory=memory)
    assert number(written, 0x21C, 4) == 0x12345
    assert number(written, 0x218, 4) == (highest - 0x12345) & ~0xFFF


def test_a_kernel_that_sets_a_lower_limit_gets_its_initial_ram_disk_below_it() -> None:
    image = bytearray(kernel(extended_flags=0x01))
    image[0x22C:0x230] = struct.pack("<I", 0x37FFFFFF)
    assert number(patched(bytes(image), initrd_size=1), 0x218, 4) == 0x37FFFFFE & ~0xFFF


@pytest.mark.parametrize(
    "image",
    [
        b"",
        kernel()[:0x260],
        kernel().replace(b"HdrS", b"none"),
        kernel(protocol=0x20B),
        kernel(flags=0),
    ],
    ids=["nothing", "cut off", "no Linux kernel", "an old protocol", "loaded low"],
)
def test_no_kernel_that_qemu_patches(image: bytes) -> None:
    with pytest.raises(ConfigurationError, match="no kernel that can be measured") as refused:
        patched(image)
    assert refused.value.code == "measure-kernel-invalid"


def test_an_initial_ram_disk_that_does_not_fit() -> None:
    with pytest.raises(ConfigurationError, match="does not fit"):
        patched(kernel(), initrd_size=GIB, memory=GIB)
    with pytest.raises(ConfigurationError, match="does not fit"):
        patched(kernel(), initrd_size=1, memory=0)


# -- Authenticode


@pytest.mark.parametrize("magic", [0x10B, 0x20B])
@pytest.mark.parametrize("directories", [4, 5, 16])
@pytest.mark.parametrize(("certificates", "rest"), [(b"", b""), (b"", b"rest"), (b"cert" * 8, b""), (b"c" * 9, b"r")])
def test_everything_counts_but_checksum_and_certificates(
    magic: int, directories: int, certificates: bytes, rest: bytes
) -> None:
    if directories <= 4:
        certificates = b""
    image = kernel(magic=magic, directories=directories, certificates=certificates, rest=rest)
    checksum = 0x300 + 24 + 64
    entry = 0x300 + 24 + {0x10B: 96, 0x20B: 112}[magic] + 8 * 4
    left_out = {*range(checksum, checksum + 4)}
    if directories > 4:
        left_out |= {*range(entry, entry + 8)}
    end = len(image) - len(certificates)
    assert digest(image) == sha384(bytes(image[at] for at in range(end) if at not in left_out)).digest()


def test_sections_count_in_the_order_of_the_file() -> None:
    """The headers name the second section first, or last; the digests differ by the headers alone."""
    for image in (kernel(), kernel(sections=((0x600, 0x200), (0x800, 0x200)))):
        headers = bytes(image[at] for at in range(0x600) if not (0x358 <= at < 0x35C or 0x3A8 <= at < 0x3B0))
        assert digest(image) == sha384(headers + image[0x600:]).digest()


def test_sections_without_content_count_for_nothing() -> None:
    image = kernel(sections=((0x600, 0x200), (0xFFFFFF00, 0)))
    assert len(digest(image)) == 48


def broken() -> dict[str, bytes]:
    image = kernel()
    pe = 0x300

    def at(offset: int, value: bytes) -> bytes:
        return image[:offset] + value + image[offset + len(value) :]

    return {
        "nothing": b"",
        "no MZ": b"ZM" + image[2:],
        "no PE signature": at(pe, b"NE"),
        "PE header after the end": at(0x3C, b"\xff\xff\xff\xff"),
        "unknown magic": at(pe + 24, b"\x07\x01"),
        "no optional header": at(pe + 20, b"\0\0"),
        "an optional header that is too short": at(pe + 20, b"\x90\0"),
        "an optional header after the end": at(pe + 20, b"\xff\xff"),
        "too many sections": at(pe + 6, b"\xff\xff"),
        "section headers after the end": at(pe + 6, b"\x60\0"),
        "headers that end before they begin": at(pe + 24 + 60, b"\0\0\0\0"),
        "headers after the end": at(pe + 24 + 60, b"\xff\xff\xff\x00"),
        "a section after the end": at(pe + 24 + 240 + 16, b"\xff\xff\xff\x00"),
        "certificates longer than the file": at(pe + 24 + 112 + 36, b"\xff\xff\xff\x00"),
    }


@pytest.mark.parametrize("case", broken())
def test_no_image_that_the_firmware_measures(case: str) -> None:
    with pytest.raises(ConfigurationError, match="no kernel that can be measured") as refused:
        digest(broken()[case])
    assert refused.value.code == "measure-kernel-invalid"


def measure(image: bytes) -> None:
    try:
        assert len(digest(patched(image, initrd_size=4096))) == 48
    except ConfigurationError as exc:
        assert exc.code == "measure-kernel-invalid"  # noqa: PT017  a total function


def test_a_patched_kernel_is_measured_or_refused_by_name() -> None:
    image = kernel()
    for at in (*range(0x40), *range(0x1F0, 0x270), *range(0x300, 0x458)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            measure(image[:at] + bytes([value]) + image[at + 1 :])


@given(st.binary(max_size=0x500), st.integers(0x300, 0x450), st.binary(max_size=16))
def test_any_bytes_are_measured_or_refused_by_name(data: bytes, at: int, patch: bytes) -> None:
    measure(data)
    image = kernel()
    measure(image[:at] + patch + image[at + len(patch) :])


def test_a_kernel_is_measured_whole_wherever_it_is_cut_off_or_refused() -> None:
    image = kernel(certificates=b"c" * 16)
    for length in range(0, len(image), 7):
        measure(image[:length])
