"""Secrets in their padded form: every byte comes back, and the length tells the size class alone."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError, EvidenceError
from attest.release import MAX_SECRET_BYTES, PADDED_BYTES, pad_secret, unpad_secret


@pytest.mark.parametrize("length", [1, 2, 31, 32, 4095, 4096, 4097, 65535, 65536])
def test_a_secret_of_any_allowed_length_comes_back(length: int) -> None:
    secret = b"s" * length
    assert unpad_secret(pad_secret(secret)) == secret


@pytest.mark.parametrize(("shorter", "longer"), [(1, 4096), (4097, 65536)])
def test_secrets_of_one_size_class_are_padded_to_one_length(shorter: int, longer: int) -> None:
    assert len(pad_secret(b"a" * shorter)) == len(pad_secret(b"a" * longer))


def test_trailing_zeros_of_a_secret_are_kept() -> None:
    assert unpad_secret(pad_secret(b"a\0\0")) == b"a\0\0"


@pytest.mark.parametrize("length", [0, MAX_SECRET_BYTES + 1])
def test_an_empty_or_oversized_secret_is_refused_without_its_length(length: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        pad_secret(b"a" * length)
    assert caught.value.code == "secret-size-invalid"
    assert str(MAX_SECRET_BYTES + 1) not in str(caught.value.context())


@pytest.mark.parametrize(
    "alter",
    [
        lambda padded: padded[:-1],
        lambda padded: padded + b"\0",
        lambda padded: b"\x02" + padded[1:],
        lambda padded: padded[:1] + (0).to_bytes(4, "big") + padded[5:],
        lambda padded: padded[:1] + (4097).to_bytes(4, "big") + padded[5:],
        lambda padded: padded[:-1] + b"\1",
        lambda padded: b"",
        lambda padded: b"\x01",
    ],
    ids=["cut", "longer", "format", "no-length", "too-long", "padding", "nothing", "head"],
)
def test_an_altered_padded_form_is_refused(alter: object) -> None:
    with pytest.raises(EvidenceError) as caught:
        unpad_secret(alter(bytes(pad_secret(b"password"))))  # type: ignore[operator]
    assert caught.value.code == "secret-padding-invalid"
    assert "password" not in str(caught.value.context())


@given(st.one_of(st.binary(max_size=64), st.binary(max_size=8).map(lambda head: head.ljust(PADDED_BYTES[0], b"\0"))))
def test_any_bytes_are_a_secret_or_a_documented_error(data: bytes) -> None:
    with suppress(EvidenceError):
        assert pad_secret(unpad_secret(data)) == data
