"""What all clients share: a key that is shown nowhere, and connections that are closed."""

import pickle

import pytest

from attest.errors import ConfigurationError
from attest.fetch import MAX_SERVICE_KEY_BYTES, ApiKey, read_service_key


def test_a_key_is_read_from_the_content_of_a_file_and_goes_into_a_header() -> None:
    for content in (b"nvapi-a_b.c~d+e/f=", b"  nvapi-a_b.c~d+e/f=\r\n"):
        assert read_service_key(content).headers() == {"Authorization": "Bearer nvapi-a_b.c~d+e/f="}
    longest = b"x" * MAX_SERVICE_KEY_BYTES
    assert read_service_key(longest).headers()["Authorization"].endswith("xx")


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"two words", b"a\nb", b"key\x00", "schlüssel".encode(), b"x" * (MAX_SERVICE_KEY_BYTES + 1)]
)
def test_anything_else_is_refused_and_not_shown(content: bytes) -> None:
    with pytest.raises(ConfigurationError) as raised:
        read_service_key(content)
    assert raised.value.code == "service-key-invalid"
    assert not content.strip() or content.decode() not in raised.value.message


def test_a_key_is_not_shown_and_not_pickled() -> None:
    key = ApiKey("secret-key")
    assert "secret-key" not in f"{key} {key!r}"
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(key)
