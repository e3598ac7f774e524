"""The service's own keys: names, and unwrapping."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Final

from attest.errors import ConfigurationError
from kms.config.settings import Settings
from kms.domain.kek import KeyEncryptionKey, RandomBytes
from kms.domain.kek_records import KekRecord
from kms.domain.keys import own_context
from kms.domain.secret import SecretBytes
from kms.keys.wrapping.backends import open_backend
from kms.keys.wrapping.definitions import read_directory
from kms.keys.wrapping.keyring import KekRing
from kms.store import ReadTransaction

OwnKey = tuple[str, str]
"""Name and algorithm."""
IDENTITY: Final = ("identity", "ed25519")
CHALLENGE_MAC: Final = ("challenge-mac", "hmac-sha256")
STATE: Final = ("state", "hkdf-sha256")
OWN_KEYS: Final = (IDENTITY, CHALLENGE_MAC, STATE)


@contextmanager
def opened_ring(settings: Settings, records: tuple[KekRecord, ...], *, random: RandomBytes) -> Iterator[KekRing]:
    """Open the key-encryption keys of a database that is being made, from its records.

    Raises:
        ConfigurationError: as ``open_backend``; ``kek-mismatch`` or ``kek-retired``.
        UnavailableError: the back-end of the key is unavailable.
    """
    with closing(open_backend(settings.kek, random=random)) as main:
        others = partial(read_directory, settings.kek_directory)
        yield KekRing(main, known=lambda: records, others=others, random=random)


def own_secret(tx: ReadTransaction, kek: KeyEncryptionKey, origin: str, key: OwnKey) -> SecretBytes:
    """Unwrap one of the service's own keys.

    Raises:
        ConfigurationError: ``database-not-initialised``.
        IntegrityError: ``wrapped-key-invalid``.
    """
    name, algorithm = key
    found = tx.own_secrets.find(name)
    if found is None or found[0] != algorithm:
        raise ConfigurationError(
            f"the service's own key {name!r} is missing in the database",
            code="database-not-initialised",
            field="database",
        )
    return kek.unwrap(found[1], context=own_context(origin, name, algorithm))
