"""MRTD once more, written from the TDX module's specification, and firmware that is none."""

import struct
from hashlib import sha384

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from attest.measure.td_hob import td_hob
from attest.measure.tdvf import MAX_SECTIONS, PageOrder, mr_td, parse_tdvf
from tests.measure.made import (
    BOOT_VOLUME,
    CONFIGURATION_VOLUME,
    EXTEND,
    LATE,
    MEMORY,
    OVMF_MEMORY,
    PAGE,
    TD_HOB,
    Row,
    blank_variables,
    firmware,
    ovmf,
)

MIB = 1 << 20
CODE = bytes(range(256)) * 16 + b"\x5a" * PAGE
BOOT: Row = (0, 2 * PAGE, 0xFFFFE000, 2 * PAGE, BOOT_VOLUME, EXTEND)
HOB: Row = (0, 0, 0x809000, 0x2000, TD_HOB, 0)


def add(address: int) -> bytes:
    """TDH.MEM.PAGE.ADD: 128 bytes with the name at 0 and the address at 16."""
    step = bytearray(128)
    step[:12] = b"MEM.PAGE.ADD"
    step[16:24] = address.to_bytes(8, "little")
    return bytes(step)


def extend(address: int, page: bytes) -> bytes:
    """TDH.MR.EXTEND for each 256 bytes of a page: 128 bytes with name and address, then the 256 bytes."""
    steps = b""
    for at in range(0, PAGE, 256):
        step = bytearray(128)
        step[:9] = b"MR.EXTEND"
        step[16:24] = (address + at).to_bytes(8, "little")
        steps += bytes(step) + page[at : at + 256]
    return steps


def measured(*rows: Row, order: PageOrder = PageOrder.BY_PAGE, content: bytes = CODE) -> bytes:
    return mr_td(parse_tdvf(firmware(rows, content=content), name="ovmf"), order)


def test_each_page_is_added_and_then_measured() -> None:
    one, two = 0xFFFFE000, 0xFFFFF000
    steps = add(one) + extend(one, CODE[:PAGE]) + add(two) + extend(two, CODE[PAGE:]) + add(0x809000) + add(0x80A000)
    assert measured(BOOT, HOB) == sha384(steps).digest()


def test_in_two_passes_all_pages_of_a_section_are_added_before_any_is_measured() -> None:
    one, two = 0xFFFFE000, 0xFFFFF000
    steps = add(one) + add(two) + extend(one, CODE[:PAGE]) + extend(two, CODE[PAGE:]) + add(0x809000) + add(0x80A000)
    assert measured(BOOT, HOB, order=PageOrder.BY_SECTION) == sha384(steps).digest()


def test_both_orders_agree_where_no_section_of_several_pages_is_measured() -> None:
    row: Row = (0, PAGE, 0xFFFFF000, PAGE, BOOT_VOLUME, EXTEND)
    assert measured(row, HOB) == measured(row, HOB, order=PageOrder.BY_SECTION)


def test_the_order_of_the_sections_is_that_of_the_metadata() -> None:
    assert measured(BOOT, HOB) != measured(HOB, BOOT)


def test_content_of_a_section_that_is_not_measured_changes_nothing() -> None:
    volume: Row = (PAGE, PAGE, 0xFFC00000, PAGE, CONFIGURATION_VOLUME, 0)
    boot: Row = (0, PAGE, 0xFFFFF000, PAGE, BOOT_VOLUME, EXTEND)
    other = CODE[:PAGE] + bytes(PAGE)
    assert measured(boot, volume) == measured(boot, volume, content=other)
    assert measured(boot, volume) != measured(boot, volume, content=bytes(PAGE) + CODE[PAGE:])


def test_measured_memory_without_content_is_zeros() -> None:
    row: Row = (0, 0, 0x810000, PAGE, MEMORY, EXTEND)
    steps = add(0xFFFFE000) + extend(0xFFFFE000, CODE[:PAGE]) + add(0xFFFFF000) + extend(0xFFFFF000, CODE[PAGE:])
    assert measured(BOOT, row) == sha384(steps + add(0x810000) + extend(0x810000, bytes(PAGE))).digest()


REFUSED: dict[str, tuple[tuple[Row, ...], str]] = {
    "no boot volume": ((HOB,), "no boot firmware volume"),
    "unknown type": (((0, PAGE, 0xFFFFF000, PAGE, 9, 0),), "unknown kind"),
    "unknown attribute": (((0, PAGE, 0xFFFFF000, PAGE, BOOT_VOLUME, 4),), "unknown kind"),
    "pages added after the start": (((0, 0, 0x810000, PAGE, MEMORY, LATE), BOOT), "unknown kind"),
    "less content than memory": (((0, PAGE, 0xFFFFE000, 2 * PAGE, BOOT_VOLUME, EXTEND),), "of the image"),
    "address within a page": (((0, PAGE, 0xFFFFF001, PAGE, BOOT_VOLUME, EXTEND),), "no whole pages"),
    "half a page": (((0, 0, 0x810000, 0x800, MEMORY, 0), BOOT), "no whole pages"),
    "no page": (((0, 0, 0x810000, 0, MEMORY, 0), BOOT), "no whole pages"),
    "address beyond the processor's": (((0, 0, (1 << 64) - PAGE, PAGE, MEMORY, 0), BOOT), "no whole pages"),
    "more content than memory": (((0, 2 * PAGE, 0xFFFFF000, PAGE, BOOT_VOLUME, EXTEND),), "of the image"),
    "content after the end": (((0x4000, PAGE, 0xFFFFF000, PAGE, BOOT_VOLUME, EXTEND),), "of the image"),
    "a boot volume without content": (((0, 0, 0xFFFFF000, PAGE, BOOT_VOLUME, EXTEND),), "of the image"),
    "memory with content": (((0, PAGE, 0x810000, PAGE, MEMORY, 0), BOOT), "of the image"),
    "a measured TD HOB": (((0, 0, 0x809000, PAGE, TD_HOB, EXTEND), BOOT), "measures the TD HOB"),
    "sections that overlap": ((BOOT, HOB, (0, 0, 0x80A000, PAGE, MEMORY, 0)), "overlap at 0x80a000"),
    "a gigabyte": (((0, 0, 0x1000000, 1 << 30, MEMORY, 0), BOOT), "more than"),
    "too many sections": (
        (BOOT, *((0, 0, 0x810000 + PAGE * index, PAGE, MEMORY, 0) for index in range(MAX_SECTIONS))),
        "another kind",
    ),
    "no section": ((), "another kind"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_metadata_that_no_host_accepts(case: str) -> None:
    rows, said = REFUSED[case]
    with pytest.raises(ConfigurationError, match=said) as refused:
        parse_tdvf(firmware(rows, content=CODE), name="ovmf")
    assert refused.value.code == "measure-firmware-invalid"


def images() -> dict[str, bytes]:
    good = firmware((BOOT, HOB), content=CODE)
    entry = good.rindex(b"TDVF") + 16 + 64
    return {
        "another version": firmware((BOOT, HOB), content=CODE, version=2),
        "another length": firmware((BOOT, HOB), content=CODE, length=16 + 32),
        "another signature": good.replace(b"TDVF", b"TDXF"),
        "metadata before its beginning": good[:entry] + b"\xff\xff\xff\xff" + good[entry + 4 :],
        "metadata at its end": good[:entry] + b"\x10\0\0\0" + good[entry + 4 :],
        "metadata that is cut off": good[:entry]
        + b"\x20\0\0\0"
        + good[entry + 4 : -32]
        + good[entry - 80 : entry - 48],
        "metadata of no length": good[:entry] + b"\0\0\0\0" + good[entry + 4 :],
        "no metadata": good[: entry + 6] + bytes(16) + good[entry + 22 :],
        "an entry without a number": good[: entry + 4] + b"\x12\0" + good[entry + 6 :],
        "no table": good[:-48] + bytes(48),
        "nothing": b"",
        "half a page": good[: PAGE // 2],
    }


@pytest.mark.parametrize("case", images())
def test_firmware_without_metadata(case: str) -> None:
    with pytest.raises(ConfigurationError, match="no firmware that can be measured") as refused:
        parse_tdvf(images()[case], name="ovmf")
    assert refused.value.code == "measure-firmware-invalid"


def measure(image: bytes) -> None:
    """Measure, or refuse with a documented code."""
    try:
        tdvf = parse_tdvf(image, name="ovmf")
        td_hob(tdvf, 4096 * MIB)
    except ConfigurationError as exc:
        assert exc.code in ("measure-firmware-invalid", "measure-options-invalid")  # noqa: PT017  a total function
        return
    for order in PageOrder:
        assert len(mr_td(tdvf, order)) == 48


@given(st.binary(max_size=400), st.integers(0, 400), st.binary(min_size=1, max_size=8))
def test_any_bytes_are_measured_or_refused_by_name(tail: bytes, at: int, patch: bytes) -> None:
    image = bytearray(PAGE - len(tail)) + bytearray(tail)
    image[PAGE - 32 - at : PAGE - 32 - at + len(patch)] = patch
    measure(bytes(image[:PAGE]))


def test_a_patched_image_is_measured_or_refused_by_name() -> None:
    """Each byte of metadata and table, set to values around its borders; no value makes the work unbounded."""
    image = firmware((BOOT, HOB), content=CODE)
    begin = image.rindex(b"TDVF")
    for at in range(begin, len(image)):
        for value in (0x00, 0x01, 0x0F, 0x7F, 0x80, 0xFF):
            measure(image[:at] + bytes([value]) + image[at + 1 :])


@given(st.binary(min_size=32 * 3, max_size=32 * 3))
def test_any_section_is_measured_or_refused_by_name(rows: bytes) -> None:
    image = firmware((BOOT, HOB, HOB), content=CODE)
    begin = image.rindex(b"TDVF") + 16
    measure(image[:begin] + rows + image[begin + len(rows) :])


# -- the TD HOB


def hob_rows(hob: bytes) -> list[tuple[int, int, int]]:
    """Return resource type, start and length of each resource HOB."""
    rows = [struct.unpack_from("<IIQQ", hob, at + 24) for at in range(56, len(hob), 48)]
    return [(kind, start, length) for kind, _, start, length in rows]


TDVF = parse_tdvf(ovmf(blank_variables()), name="ovmf")


@pytest.mark.parametrize(
    ("memory", "low"),
    [
        (2048 * MIB, 2048 * MIB),
        (0xB0000000 - MIB, 0xB0000000 - MIB),
        (0xB0000000, 0x80000000),
        (64 * 1024 * MIB, 0x80000000),
    ],
)
def test_a_machine_of_2816_mib_has_only_two_gibibytes_below_four(memory: int, low: int) -> None:
    rows = hob_rows(td_hob(TDVF, memory))
    assert sum(length for _, _, length in rows) == memory
    assert [start for _, start, _ in rows if start >= 1 << 32] == ([1 << 32] if memory > low else [])
    assert max(start + length for _, start, length in rows if start < 1 << 32) == low


def test_the_ranges_are_in_order_and_only_the_firmware_s_own_are_accepted() -> None:
    rows = hob_rows(td_hob(TDVF, 4096 * MIB))
    assert rows == sorted(rows, key=lambda row: row[1])
    accepted = sorted((start, length) for kind, start, length in rows if kind == 0)
    assert accepted == sorted((row[2], row[3]) for row in OVMF_MEMORY)
    assert {kind for kind, _, _ in rows} == {0, 7}


def test_the_first_hob_names_the_end_of_the_list() -> None:
    hob = td_hob(TDVF, 4096 * MIB)
    assert int.from_bytes(hob[48:56], "little") == 0x809000 + len(hob) + 8


def test_memory_that_begins_with_a_section_has_nothing_before_it() -> None:
    rows = (BOOT, HOB, (0, 0, 0, PAGE, MEMORY, 0), (0, 0, 64 * MIB - PAGE, PAGE, MEMORY, 0))
    found = hob_rows(td_hob(parse_tdvf(firmware(rows, content=CODE), name="ovmf"), 64 * MIB))
    assert found[0] == (0, 0, PAGE)
    assert found[-1] == (0, 64 * MIB - PAGE, PAGE)


@pytest.mark.parametrize("memory", [0, 63 * MIB, 64 * MIB + 1, (1 << 46) + MIB])
def test_memory_that_no_machine_has(memory: int) -> None:
    with pytest.raises(ConfigurationError) as refused:
        td_hob(TDVF, memory)
    assert refused.value.code == "measure-options-invalid"


def test_memory_that_ends_within_the_firmware_s_sections() -> None:
    rows = (BOOT, HOB, (0, 0, 64 * MIB, PAGE, MEMORY, 0))
    with pytest.raises(ConfigurationError, match="which the firmware needs"):
        td_hob(parse_tdvf(firmware(rows, content=CODE), name="ovmf"), 64 * MIB)


@pytest.mark.parametrize("count", [0, 2])
def test_firmware_has_one_place_for_a_td_hob(count: int) -> None:
    rows = (BOOT, *((0, 0, 0x809000 + 0x2000 * index, 0x2000, TD_HOB, 0) for index in range(count)))
    with pytest.raises(ConfigurationError, match=f"{count} places for a TD HOB"):
        td_hob(parse_tdvf(firmware(rows, content=CODE), name="ovmf"), 64 * MIB)


def test_a_td_hob_that_does_not_fit_into_its_section() -> None:
    rows = (BOOT, (0, 0, 0x809000, PAGE, TD_HOB, 0))
    many = tuple((0, 0, 0x900000 + 2 * PAGE * index, PAGE, MEMORY, 0) for index in range(MAX_SECTIONS - 2))
    with pytest.raises(ConfigurationError, match="does not fit"):
        td_hob(parse_tdvf(firmware((*rows, *many), content=CODE), name="ovmf"), 64 * MIB)
