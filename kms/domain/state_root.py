"""Root of the authenticated state: one record that commits to every row that affects a decision, and to the log.

Each writing transaction makes the next root. It is authenticated with a key that is wrapped under the key-encryption
key, so that write access to the database is not enough to forge a root.
"""

from __future__ import annotations

import hmac
import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from attest.release import EMPTY_ROOT
from kms.domain.errors import IntegrityError
from kms.domain.secret import EXPORT, SecretBytes
from kms.domain.state_map import DIGEST_BYTES, EMPTY

MAC_BYTES: Final = 32
_FORM: Final = struct.Struct(f">Q{DIGEST_BYTES}sQ{DIGEST_BYTES}s{DIGEST_BYTES}s")
FORGED: Final = "state-forged"
"""Code for stored state that is not the one this service wrote last."""
ROLLED_BACK: Final = "state-rolled-back"
"""Code for a state that is older than one seen before."""
STATE_CODES: Final = frozenset({FORGED, ROLLED_BACK})
_HINT: Final = "another program wrote to the database; 'kms fsck' lists the differences, a backup has the stored data"


class MacKey:
    """HMAC-SHA256 under one key."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")

    def mac(self, content: bytes) -> bytes:
        """Return the code of a content, 32 bytes."""
        keyed = self._keyed.copy()
        keyed.update(content)
        return keyed.digest()

    def holds(self, content: bytes, mac: bytes) -> bool:
        """Return True if this is the code of the content."""
        return hmac.compare_digest(mac, self.mac(content))


class StateKeys:
    """Keys that are derived from the secret of the state by HKDF (RFC 5869), one for each purpose.

    Attributes:
        root: authenticates roots of the state.
        leases: authenticates leases in the sum of live ones.
        backup: authenticates backups.
    """

    def __init__(self, secret: SecretBytes) -> None:
        self.root = _derived(secret, "root")
        self.leases = _derived(secret, "leases")
        self.backup = _derived(secret, "backup")


def _derived(secret: SecretBytes, purpose: str) -> MacKey:
    info = b"attest kms state v1\0" + purpose.encode()
    derivation = HKDF(algorithm=SHA256(), length=MAC_BYTES, salt=None, info=info)
    return MacKey(secret.lend(EXPORT, lambda view: derivation.derive(bytes(view))))


class LogEdge(NamedTuple):
    """The end of the log: number of entries, root of their tree (RFC 6962), and leaf hash of the newest."""

    size: int
    root: bytes
    leaf: bytes


EMPTY_LOG: Final = LogEdge(0, EMPTY_ROOT, bytes(DIGEST_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRoot:
    """The state after one writing transaction.

    Attributes:
        counter: number of writing transactions so far.
        state: root digest of the map of rows, 32 bytes.
    """

    counter: int = 0
    state: bytes = EMPTY
    log: LogEdge = EMPTY_LOG

    def content(self) -> bytes:
        """Return the authenticated form."""
        return _FORM.pack(self.counter, self.state, *self.log)


def read_root(content: bytes, mac: bytes, *, key: MacKey) -> StateRoot:
    """Read a stored root.

    Raises:
        IntegrityError: ``state-forged``.
    """
    if len(content) != _FORM.size or not key.holds(content, mac):
        raise forged("the root of the state was not written by this service", field="state_root")
    counter, state, *log = _FORM.unpack(content)
    return StateRoot(counter=counter, state=state, log=LogEdge(*log))


def forged(problem: str, *, field: str) -> IntegrityError:
    """Return the error for stored state that is not the one this service wrote last."""
    return IntegrityError(problem, code=FORGED, field=field, hint=_HINT)


def rolled_back(problem: str, *, field: str, expected: str, got: str) -> IntegrityError:
    """Return the error for a state that is older than one seen before."""
    hint = "the database was replaced by an older copy; restore the newest backup with 'kms restore'"
    return IntegrityError(problem, code=ROLLED_BACK, field=field, expected=expected, got=got, hint=hint)
