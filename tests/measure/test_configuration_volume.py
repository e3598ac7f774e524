"""Firmware measures variables as empty only where its configuration volume holds none."""

import pytest

from attest.measure.configuration_volume import holds_no_variables
from tests.measure.made import blank_variables

BLANK = blank_variables()


def test_a_blank_store_holds_no_variables() -> None:
    assert holds_no_variables(BLANK)
    assert holds_no_variables(blank_variables(0x48000))


@pytest.mark.parametrize("at", [0x64, 0x1000, 0x3FFFF])
def test_one_written_byte_of_the_store_is_noticed(at: int) -> None:
    assert not holds_no_variables(BLANK[:at] + b"\x00" + BLANK[at + 1 :])


@pytest.mark.parametrize(
    "volume",
    [
        b"",
        BLANK[:0x40],
        BLANK[:0x50],
        BLANK[:0x1000],
        BLANK.replace(b"_FVH", b"none"),
        BLANK[:0x48] + bytes(16) + BLANK[0x58:],
        BLANK[:0x58] + b"\x1c\0\0\0" + BLANK[0x5C:],
        BLANK[:0x58] + b"\xff\xff\xff\xff" + BLANK[0x5C:],
        b"\xff" * 0x1000,
    ],
    ids=["nothing", "no header", "no store", "cut off", "no volume", "another store", "no room", "too long", "erased"],
)
def test_what_is_not_understood_is_not_called_empty(volume: bytes) -> None:
    assert not holds_no_variables(volume)
