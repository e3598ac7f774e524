"""Key-encryption key in a PKCS#11 token, which it never leaves.

::

    wrapped  0x02 (CKM_AES_GCM in a token) ‖ nonce (12 bytes) ‖ ciphertext ‖ tag (16 bytes)

When a session breaks, the same request restarts the library and logs into the token again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, cast

from pkcs11 import Attribute, KeyType, Mechanism, MechanismFlag, ObjectClass
from pkcs11 import exceptions as errors
from pkcs11.mechanisms import GCMParams

from attest.errors import ConfigurationError
from kms.domain.errors import UnavailableError
from kms.domain.kek import RandomBytes
from kms.domain.kek_records import Backend
from kms.domain.secret import SecretBytes
from kms.keys.wrapping.backend import NotCopied, NotOpenedError
from kms.keys.wrapping.definitions import Pkcs11Definition
from kms.keys.wrapping.errors import refused, unavailable
from kms.keys.wrapping.secret_files import read_credential
from kms.keys.wrapping.tokens import library_at

_FORMAT = b"\x02"
_NONCE_BYTES = 12
_TAG_BYTES = 16
_KEY_BITS = 256
_PROBE = bytes(16)
_REFUSALS: Final = (
    errors.PinExpired,
    errors.PinIncorrect,
    errors.PinInvalid,
    errors.PinLenRange,
    errors.PinLocked,
    errors.UserNotLoggedIn,
    errors.UserPinNotInitialized,
)
_FIT: Final[Mapping[Attribute, object]] = {
    Attribute.KEY_TYPE: KeyType.AES,
    Attribute.VALUE_LEN: _KEY_BITS // 8,
    Attribute.SENSITIVE: True,
    Attribute.EXTRACTABLE: False,
    Attribute.ENCRYPT: True,
    Attribute.DECRYPT: True,
}
"""Required attributes of a key-encryption key."""
_TEMPLATE: Final[dict[Attribute, object]] = {
    Attribute.PRIVATE: True,
    Attribute.SENSITIVE: True,
    Attribute.EXTRACTABLE: False,
    Attribute.MODIFIABLE: False,
}


class _GcmKey(Protocol):
    """Handle of the library, with members that its own types lack."""

    def encrypt(self, data: bytes, *, mechanism: Mechanism, mechanism_param: GCMParams) -> bytes: ...
    def decrypt(self, data: bytes, *, mechanism: Mechanism, mechanism_param: GCMParams) -> bytes: ...
    def __getitem__(self, name: Attribute) -> object: ...


class Pkcs11Backend(NotCopied):
    """AES-256-GCM inside a token; ``random`` is the source of the 12-byte nonces."""

    kind: Final = Backend.PKCS11
    derived_id: Final = None

    def __init__(self, definition: Pkcs11Definition, *, random: RandomBytes) -> None:
        self.description = definition.description
        self._definition = definition
        self._random = random
        self._library = library_at(definition.module)
        self._handle: tuple[int, _GcmKey] | None = None

    def connect(self) -> None:
        """Find the key, and check its attributes.

        Raises:
            ConfigurationError: ``kek-unfit``, ``kek-library-unusable``, or the PIN's file is unusable.
            UnavailableError: ``kek-unavailable`` or ``kek-refused``.
        """
        self._after_restart(self._key)

    def create(self) -> None:
        """Make the key in the token, unless it is there.

        Raises:
            ConfigurationError: as ``connect``.
            UnavailableError: as ``connect``.
        """
        self._after_restart(self._generate)

    def _after_restart(self, work: Callable[[], object]) -> None:
        with self._library.exclusive():
            self._library.restart()  # finds tokens inserted since the last start
            try:
                work()
            except errors.PKCS11Error as exc:
                raise self._away(exc) from exc

    def seal(self, content: bytes | memoryview, *, associated_data: bytes) -> bytes:
        """Encrypt in the token under a new nonce."""
        nonce = self._random(_NONCE_BYTES)
        return _FORMAT + nonce + self._with_key(lambda key: _encrypt(key, bytes(content), nonce, associated_data))

    def open(self, sealed: bytes, *, associated_data: bytes) -> bytes:
        """Decrypt in the token."""
        head, nonce, rest = sealed[:1], sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        if head != _FORMAT or len(rest) < _TAG_BYTES:
            raise NotOpenedError
        return self._with_key(lambda key: self._decrypted(key, rest, nonce, associated_data))

    def close(self) -> None:
        """Do nothing: another key of this process may use the library."""

    def _with_key(self, work: Callable[[_GcmKey], bytes]) -> bytes:
        """Work with the key; if that fails, try once more after a restart of the library."""
        with self._library.exclusive():
            try:
                return work(self._key())
            except (errors.PKCS11Error, ConfigurationError):
                self._library.restart()
            try:
                return work(self._key())
            except errors.PKCS11Error as exc:
                raise self._away(exc) from exc
            except ConfigurationError as exc:
                raise refused(self.description, exc.message) from exc

    def _decrypted(self, key: _GcmKey, data: bytes, nonce: bytes, associated_data: bytes) -> bytes:
        """Distinguish data that does not open from a failing token: several makers report both alike."""
        try:
            return _decrypt(key, data, nonce, associated_data)
        except errors.PKCS11Error as exc:
            if self._works(key):
                raise NotOpenedError from exc
            raise

    def _works(self, key: _GcmKey) -> bool:
        nonce = self._random(_NONCE_BYTES)
        try:
            return _decrypt(key, _encrypt(key, _PROBE, nonce, b""), nonce, b"") == _PROBE
        except errors.PKCS11Error:
            return False

    def _key(self) -> _GcmKey:
        """Return the handle of the key, which is invalid after a restart of the library."""
        started = self._library.started
        if self._handle is None or self._handle[0] != started:
            self._handle = started, self._found()
        return self._handle[1]

    def _found(self) -> _GcmKey:
        session = self._library.session(self._definition.token, self._pin)
        found = session.get_key(object_class=ObjectClass.SECRET_KEY, label=self._definition.key)
        key = cast("_GcmKey", found)  # the library makes the class of a key when it sees the key
        self._require_fit(key)
        return key

    def _generate(self) -> None:
        session = self._library.session(self._definition.token, self._pin)
        try:
            session.get_key(object_class=ObjectClass.SECRET_KEY, label=self._definition.key)
        except errors.NoSuchKey:
            writing = session.token.open(rw=True)
            writing.generate_key(
                KeyType.AES,
                _KEY_BITS,
                label=self._definition.key,
                id=self._random(8),
                store=True,
                capabilities=MechanismFlag.ENCRYPT | MechanismFlag.DECRYPT,
                template=_TEMPLATE,
            )
            writing.close()

    def _require_fit(self, key: _GcmKey) -> None:
        if Mechanism.AES_GCM not in self._library.token(self._definition.token).slot.get_mechanisms():
            raise self._unfit("CKM_AES_GCM", "no such mechanism")
        for name, expected in _FIT.items():
            try:
                got = key[name]
            except errors.PKCS11Error:
                got = "nothing"
            if got != expected:
                raise self._unfit(f"{name.name} {expected}", f"{got}")

    def _unfit(self, expected: str, got: str) -> ConfigurationError:
        return ConfigurationError(
            f"the {self.description} is unsuitable as a key-encryption key: expected {expected}, got {got}",
            code="kek-unfit",
            field="kek_key",
            expected=expected,
            got=got,
            hint="'kms init' and 'kms kek create' create a suitable key",
        )

    def _pin(self) -> SecretBytes:
        return read_credential(self._definition.pin_file, noun="file of the PIN", field="kek_pin_file")

    def _away(self, exc: errors.PKCS11Error) -> UnavailableError:
        problem = f"{type(exc).__name__} {exc}".strip()
        return (refused if isinstance(exc, _REFUSALS) else unavailable)(self.description, problem)


def _encrypt(key: _GcmKey, content: bytes, nonce: bytes, associated_data: bytes) -> bytes:
    parameters = GCMParams(nonce, associated_data, _TAG_BYTES * 8)
    return key.encrypt(content, mechanism=Mechanism.AES_GCM, mechanism_param=parameters)


def _decrypt(key: _GcmKey, content: bytes, nonce: bytes, associated_data: bytes) -> bytes:
    parameters = GCMParams(nonce, associated_data, _TAG_BYTES * 8)
    return key.decrypt(content, mechanism=Mechanism.AES_GCM, mechanism_param=parameters)
