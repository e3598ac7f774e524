"""Keys of encrypted container images: messages of a key provider of ocicrypt, and the wrapping of a layer's options.

ocicrypt encrypts a layer under a key of its own, and hands the layer's private options to the provider, which returns
an annotation of the image. The annotation is JSON, here called the packet::

    {"version": 1, "kid": "acme/images@1", "alg": "A256GCM", "iv": base64, "wrapped_data": base64}

``alg`` is AES-256-GCM under the key named by ``kid``, with a random ``iv`` of 12 bytes and the tag at the end of
``wrapped_data``. The associated data is ``_LABEL`` and ``kid``, so a packet opens under its own name alone.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from attest.encoding import JsonValue, base64_bytes, json_value
from attest.errors import ConfigurationError, EvidenceError, SealedTamperError
from attest.evidence.json_form import JsonForm
from attest.release.names import KeyReference

MAX_MESSAGE_BYTES: Final = 1024 * 1024
KEY_BYTES: Final = 32
IV_BYTES: Final = 12
_TAG_BYTES: Final = 16
_VERSION: Final = 1
_ALGORITHM: Final = "A256GCM"
_LABEL: Final = b"attest.image-key/1\0"
_KEY_ID: Final = "keyid="
_PACKET: Final = frozenset({"version", "kid", "alg", "iv", "wrapped_data"})
_FORM: Final = JsonForm(code="image-key-message-invalid", clause="ocicrypt, key provider protocol")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrapRequest:
    """A request to wrap the private options of a layer."""

    key: KeyReference
    options: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwrapRequest:
    """A request to unwrap what a packet holds."""

    key: KeyReference
    iv: bytes
    wrapped: bytes


def parse_request(message: bytes, *, provider: str) -> WrapRequest | UnwrapRequest:
    """Parse what ocicrypt writes for a provider of this name.

    Raises:
        EvidenceError: ``image-key-message-invalid``, or the message is not JSON.
        ConfigurationError: as ``KeyReference.parse``.
    """
    if len(message) > MAX_MESSAGE_BYTES:
        raise _FORM.malformed("message", f"at most {MAX_MESSAGE_BYTES} bytes", "more")
    document = _FORM.object_of(json_value(message, what="the message"), "message", members=None)
    operation = document.get("op")
    if operation == "keywrap":
        return _wrap_request(document.get("keywrapparams"), provider)
    if operation == "keyunwrap":
        return _unwrap_request(document.get("keyunwrapparams"))
    raise _FORM.malformed("op", "keywrap or keyunwrap", repr(operation)[:40])


def _wrap_request(value: JsonValue, provider: str) -> WrapRequest:
    params = _FORM.object_of(value, "keywrapparams", members=None)
    config = _FORM.object_of(params.get("ec"), "keywrapparams.ec", members=None)
    where = "keywrapparams.ec.Parameters"
    parameters = _FORM.object_of(config.get("Parameters"), where, members=None)
    names = _FORM.array_of(parameters.get(provider), f"{where}.{provider}", most=2)
    if len(names) != 1:
        raise _FORM.malformed(f"{where}.{provider}", f"one key, as in provider:{provider}:KEY", str(len(names)))
    return WrapRequest(
        key=KeyReference.parse(_text(names[0], f"{where}.{provider}").removeprefix(_KEY_ID)),
        options=_decoded(params.get("optsdata"), "keywrapparams.optsdata"),
    )


def _unwrap_request(value: JsonValue) -> UnwrapRequest:
    params = _FORM.object_of(value, "keyunwrapparams", members=None)
    annotation = _decoded(params.get("annotation"), "keyunwrapparams.annotation")
    packet = _FORM.object_of(json_value(annotation, what="the packet"), "packet", members=_PACKET)
    if type(packet.get("version")) is not int or packet["version"] != _VERSION:
        raise _FORM.malformed("packet.version", str(_VERSION), repr(packet.get("version"))[:40])
    if packet.get("alg") != _ALGORITHM:
        raise _FORM.malformed("packet.alg", _ALGORITHM, repr(packet.get("alg"))[:40])
    iv, wrapped = _decoded(packet.get("iv"), "packet.iv"), _decoded(packet.get("wrapped_data"), "packet.wrapped_data")
    if len(iv) != IV_BYTES or len(wrapped) < _TAG_BYTES:
        raise _FORM.malformed("packet", f"an iv of {IV_BYTES} bytes, and data with a tag", "other lengths")
    return UnwrapRequest(key=KeyReference.parse(_FORM.text_of(packet.get("kid"), "packet.kid")), iv=iv, wrapped=wrapped)


def wrapped(request: WrapRequest, *, key: bytes, iv: bytes) -> bytes:
    """Return the answer to a request to wrap; ``iv`` is random, 12 bytes, and new each time.

    Raises:
        ConfigurationError: ``image-key-length``.
    """
    kid = str(request.key)
    data = _cipher(key).encrypt(iv, request.options, _LABEL + kid.encode())
    packet = {"version": _VERSION, "kid": kid, "alg": _ALGORITHM, "iv": _encoded(iv), "wrapped_data": _encoded(data)}
    return _answer("keywrapresults", "annotation", json.dumps(packet, separators=(",", ":")).encode())


def unwrapped(request: UnwrapRequest, *, key: bytes) -> bytes:
    """Return the answer to a request to unwrap.

    Raises:
        ConfigurationError: ``image-key-length``.
        SealedTamperError: ``image-key-tampered``.
    """
    try:
        options = _cipher(key).decrypt(request.iv, request.wrapped, _LABEL + str(request.key).encode())
    except InvalidTag as exc:
        raise SealedTamperError(
            f"the layer's options were not wrapped under this version of {request.key}, or were changed",
            code="image-key-tampered",
            field="wrapped_data",
            hint="name the key with its version when the image is encrypted: provider:attest:KEY@VERSION",
        ) from exc
    return _answer("keyunwrapresults", "optsdata", options)


def _cipher(key: bytes) -> AESGCM:
    if len(key) != KEY_BYTES:
        raise ConfigurationError(
            f"the options of a layer are wrapped under a key of {KEY_BYTES} bytes, not {len(key)}",
            code="image-key-length",
            expected=f"{KEY_BYTES} bytes",
            got=f"{len(key)} bytes",
        )
    return AESGCM(key)


def _text(value: JsonValue, path: str) -> str:
    try:
        return _decoded(value, path).decode()
    except UnicodeDecodeError as exc:
        raise _FORM.malformed(path, "UTF-8", "other bytes") from exc


def _decoded(value: JsonValue, path: str) -> bytes:
    try:
        return base64_bytes(_FORM.text_of(value, path), what=path)
    except EvidenceError as exc:
        raise _FORM.malformed(path, "base64", "another text or type") from exc


def _encoded(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _answer(name: str, member: str, data: bytes) -> bytes:
    empty = {"keywrapresults": {"annotation": None}, "keyunwrapresults": {"optsdata": None}}
    return json.dumps(empty | {name: {member: _encoded(data)}}).encode()
