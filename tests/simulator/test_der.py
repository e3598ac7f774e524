"""The writer agrees with the library's encoder where both can write a thing."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from cryptography.hazmat import asn1
from cryptography.x509 import ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from attest_simulator import der


@given(st.integers(min_value=-(1 << 200), max_value=1 << 200))
def test_an_integer_is_written_as_the_library_writes_it(value: int) -> None:
    assert der.integer(value) == asn1.encode_der(value)


@given(st.binary(max_size=400))
def test_an_octet_string_is_written_as_the_library_writes_it(value: bytes) -> None:
    assert der.octet_string(value) == asn1.encode_der(value)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 255, 256, 65535, 65536])
def test_a_length_takes_the_fewest_bytes(length: int) -> None:
    assert der.octet_string(bytes(length)) == asn1.encode_der(bytes(length))


@pytest.mark.parametrize("dotted", ["2.5.29.14", "1.3.6.1.4.1.3704.1.3.8", "1.2.840.113549.1.1.10", "2.999.1", "0.0"])
def test_an_object_identifier_is_written_as_the_library_writes_it(dotted: str) -> None:
    assert der.object_identifier(dotted) == asn1.encode_der(ObjectIdentifier(dotted))


def test_text_and_bits_are_written_as_the_library_writes_them() -> None:
    assert der.ia5_string("Milan-B0") == asn1.encode_der(asn1.IA5String("Milan-B0"))
    assert der.bit_string(b"\x06", unused_bits=1) == asn1.encode_der(asn1.BitString(b"\x06", 1))
    assert asn1.encode_der(True) == der.TRUE


def test_text_outside_ascii_is_refused() -> None:
    with pytest.raises(ValueError, match="ascii"):
        der.ia5_string("Mailänd")


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(1950, 1, 1, tzinfo=UTC), b"\x17\x0d500101000000Z"),
        (datetime(2020, 10, 22, 17, 23, 5, tzinfo=UTC), b"\x17\x0d201022172305Z"),
        (datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC), b"\x17\x0d491231235959Z"),
        (datetime(2050, 1, 1, tzinfo=UTC), b"\x18\x0f20500101000000Z"),
        (datetime(2050, 1, 1, 1, tzinfo=timezone(timedelta(hours=2))), b"\x17\x0d491231230000Z"),
        (datetime(949, 1, 1, tzinfo=UTC), b"\x18\x0f09490101000000Z"),
    ],
)
def test_a_time_is_utc_time_until_2049_and_generalized_time_from_2050(moment: datetime, expected: bytes) -> None:
    assert der.time(moment) == expected


@pytest.mark.parametrize("moment", [datetime(2026, 1, 1), datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)])  # noqa: DTZ001
def test_a_time_without_zone_or_with_a_fraction_is_refused(moment: datetime) -> None:
    with pytest.raises(ValueError, match="whole seconds"):
        der.time(moment)
