"""Keys of encrypted container images: a packet opens under its own key and name, and any message is read or refused."""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from attest.agent.image_keys import (
    MAX_MESSAGE_BYTES,
    UnwrapRequest,
    WrapRequest,
    parse_request,
    unwrapped,
    wrapped,
)
from attest.cli.main import cli
from attest.errors import AttestError, ConfigurationError, EvidenceError, SealedTamperError
from tests.agent.running import KEY, NOT_ME, Running
from tests.kms.support import MATERIAL

Json: TypeAlias = Any  # a document
IV = bytes(range(12))
OPTIONS = b'{"symkey":"a key of a layer"}'
NAME = "acme/images@1"


def text(data: bytes) -> str:
    return b64encode(data).decode()


def wrap_message(name: str = NAME, *, provider: str = "attest") -> Json:
    config = {"Parameters": {provider: [text(name.encode())]}, "DecryptConfig": {"Parameters": None}}
    empty = {"dc": None, "annotation": None}
    return {"op": "keywrap", "keywrapparams": {"ec": config, "optsdata": text(OPTIONS)}, "keyunwrapparams": empty}


def unwrap_message(annotation: bytes) -> Json:
    params = {"dc": {"Parameters": {"attest": []}}, "annotation": text(annotation)}
    return {"op": "keyunwrap", "keywrapparams": {"ec": None, "optsdata": None}, "keyunwrapparams": params}


def parsed(document: Json) -> WrapRequest | UnwrapRequest:
    return parse_request(json.dumps(document).encode(), provider="attest")


def packet_of(answer: bytes) -> Json:
    return json.loads(b64decode(json.loads(answer)["keywrapresults"]["annotation"]))


def made(name: str = NAME) -> Json:
    request = parsed(wrap_message(name))
    assert isinstance(request, WrapRequest)
    return packet_of(wrapped(request, key=MATERIAL, iv=IV))


def opened(packet: Json, key: bytes = MATERIAL) -> bytes:
    request = parsed(unwrap_message(json.dumps(packet).encode()))
    assert isinstance(request, UnwrapRequest)
    return b64decode(json.loads(unwrapped(request, key=key))["keyunwrapresults"]["optsdata"])


def test_what_was_wrapped_is_unwrapped() -> None:
    assert opened(made()) == OPTIONS


def test_a_packet_is_aes_gcm_under_the_key_and_its_name() -> None:
    packet = made()
    assert packet.keys() == {"version", "kid", "alg", "iv", "wrapped_data"}
    assert (packet["version"], packet["kid"], packet["alg"]) == (1, "acme/images@1", "A256GCM")
    data = b"attest.image-key/1\0acme/images@1"
    assert AESGCM(MATERIAL).decrypt(b64decode(packet["iv"]), b64decode(packet["wrapped_data"]), data) == OPTIONS


def test_a_parameter_may_name_the_key_as_keyid() -> None:
    assert made("keyid=acme/images@1") == made()


def test_another_key_another_name_and_each_changed_byte_are_refused() -> None:
    packet = made()
    with pytest.raises(SealedTamperError, match="not wrapped under this version"):
        opened(packet, key=bytes(32))
    data = b64decode(packet["wrapped_data"])
    changed = [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(data))]
    forged = [packet | {"kid": "acme/images@2"}, packet | {"iv": text(bytes(12))}]
    for one in [*forged, *(packet | {"wrapped_data": text(other)} for other in (*changed, data[:-1], data + b"\0"))]:
        with pytest.raises(SealedTamperError) as caught:
            opened(one)
        assert caught.value.code == "image-key-tampered"


@pytest.mark.parametrize("length", [0, 16, 31, 33])
def test_a_key_of_another_length_wraps_nothing(length: int) -> None:
    request = parsed(wrap_message())
    assert isinstance(request, WrapRequest)
    with pytest.raises(ConfigurationError) as caught:
        wrapped(request, key=bytes(length), iv=IV)
    assert caught.value.code == "image-key-length"


def without(name: str) -> Callable[[Json], Json]:
    return lambda document: {key: value for key, value in document.items() if key != name}


@pytest.mark.parametrize(
    "change",
    [
        *map(without, ("version", "kid", "alg", "iv", "wrapped_data")),
        lambda packet: packet | {"version": 2},
        lambda packet: packet | {"version": True},
        lambda packet: packet | {"version": "1"},
        lambda packet: packet | {"alg": "A128GCM"},
        lambda packet: packet | {"alg": None},
        lambda packet: packet | {"iv": text(bytes(11))},
        lambda packet: packet | {"iv": text(bytes(16))},
        lambda packet: packet | {"iv": "AAAA AAAAAAAAAAAA"},
        lambda packet: packet | {"wrapped_data": text(bytes(15))},
        lambda packet: packet | {"kid": ["x"]},
        lambda packet: packet | {"more": 1},
        lambda packet: [packet],
    ],
)
def test_a_packet_of_another_form_is_refused(change: Callable[[Json], Json]) -> None:
    with pytest.raises(EvidenceError) as caught:
        parsed(unwrap_message(json.dumps(change(made())).encode()))
    assert caught.value.code == "image-key-message-invalid"


def parameters(value: Json) -> Json:
    document = wrap_message()
    document["keywrapparams"]["ec"]["Parameters"] = value
    return document


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        {"op": "keydrop"},
        {"op": ["keywrap"]},
        {"op": "keywrap"},
        {"op": "keyunwrap"},
        wrap_message() | {"keywrapparams": {"ec": None, "optsdata": text(OPTIONS)}},
        wrap_message(provider="another"),
        parameters(None),
        parameters({"attest": []}),
        parameters({"attest": [text(b"a"), text(b"b")]}),
        parameters({"attest": [text(b"\xff")]}),
        parameters({"attest": ["not base64"]}),
        parameters({"attest": NAME}),
        {"op": "keywrap", "keywrapparams": wrap_message()["keywrapparams"] | {"optsdata": None}},
    ],
)
def test_a_message_of_another_form_is_refused(document: Json) -> None:
    with pytest.raises(EvidenceError) as caught:
        parsed(document)
    assert caught.value.code == "image-key-message-invalid"


def test_what_is_no_name_of_a_key_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        parsed(wrap_message("A B"))


def test_a_message_that_is_too_long_is_refused() -> None:
    with pytest.raises(EvidenceError, match="at most"):
        parse_request(json.dumps(wrap_message()).encode() + b" " * MAX_MESSAGE_BYTES, provider="attest")


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_read_or_refused(message: bytes) -> None:
    try:
        parse_request(message, provider="attest")
    except AttestError as exc:
        assert exc.exit_code in {2, 3}  # noqa: PT017  either is right


# -- the command


def call(document: Json, *words: str) -> Result:
    return CliRunner().invoke(cli, ["keyprovider", *words], input=json.dumps(document).encode(), standalone_mode=False)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "images.key"
    path.write_bytes(MATERIAL)
    path.chmod(0o600)
    return path


def test_the_owner_wraps_with_a_file(key_file: Path) -> None:
    done = call(wrap_message(), "--key", f"{NAME}={key_file}")
    assert (done.return_value, done.stderr) == (0, "")
    assert opened(packet_of(done.stdout_bytes)) == OPTIONS
    again = call(wrap_message(), "--key", f"{NAME}={key_file}")
    assert packet_of(again.stdout_bytes)["iv"] != packet_of(done.stdout_bytes)["iv"]


def test_a_machine_unwraps_with_what_its_agent_holds(running: Running) -> None:
    done = call(unwrap_message(json.dumps(made(KEY)).encode()), "--socket", str(running.path))
    assert (done.return_value, done.stderr) == (0, "")
    assert b64decode(json.loads(done.stdout)["keyunwrapresults"]["optsdata"]) == OPTIONS


def test_without_a_lease_nothing_is_unwrapped(running: Running) -> None:
    running.session.lose(KEY)
    done = call(unwrap_message(json.dumps(made(KEY)).encode()), "--socket", str(running.path))
    assert (done.return_value, done.stdout) == (1, "")
    assert "is not renewed" in done.stderr


def test_a_key_that_the_rules_do_not_grant_is_refused(running: Running) -> None:
    done = call(wrap_message("other"), "--socket", str(running.path))
    assert (done.return_value, done.stdout) == (1, "")
    assert "no such key for this peer" in done.stderr


def test_another_program_at_the_socket_is_sent_nothing(running: Running) -> None:
    done = call(wrap_message(KEY), "--socket", str(running.path), "--uid", str(NOT_ME.uid))
    assert (done.return_value, done.stdout) == (4, "")


def test_without_an_agent_it_says_so(folder: Path) -> None:
    done = call(wrap_message(KEY), "--socket", str(folder / "none"))
    assert (done.return_value, done.stdout) == (5, "")


@pytest.mark.parametrize("words", [(), ("--socket", "s", "--key", "a=b"), ("--key", "a"), ("--key", "a=")])
def test_a_source_of_the_key_is_named_once(words: tuple[str, ...]) -> None:
    done = call(wrap_message(), *words)
    assert (done.return_value, done.stdout) == (2, "")


def test_a_file_is_for_the_key_that_it_is_named_for(key_file: Path) -> None:
    done = call(wrap_message(), "--key", f"acme/images@2={key_file}")
    assert (done.return_value, done.stdout) == (2, "")
    assert "no --key names acme/images@1" in done.stderr


def test_a_file_that_others_may_read_is_refused(key_file: Path) -> None:
    key_file.chmod(0o644)
    done = call(wrap_message(), "--key", f"{NAME}={key_file}")
    assert (done.return_value, done.stdout) == (2, "")


def test_a_key_file_of_another_length_is_refused(key_file: Path) -> None:
    key_file.write_bytes(os.urandom(33))
    done = call(wrap_message(), "--key", f"{NAME}={key_file}")
    assert (done.return_value, "a key of 32 bytes, not 33" in done.stderr) == (2, True)


def test_what_is_no_message_is_exit_code_3(key_file: Path) -> None:
    done = call({"op": 1}, "--key", f"{NAME}={key_file}")
    assert (done.return_value, done.stdout) == (3, "")
    assert "op: expected keywrap or keyunwrap" in done.stderr
