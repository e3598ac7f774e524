"""Key-encryption keys for tests."""

from pathlib import Path

from kms.keys.kek import RandomBytes
from kms.keys.secret import SecretBytes
from kms.keys.wrapping.backend import SingleKek
from kms.keys.wrapping.file import FileBackend
from tests.kms.support import FakeRandom


def file_kek(seed: str = "kek", *, random: RandomBytes | None = None) -> SingleKek:
    """A key-encryption key as one from a file would be."""
    key = SecretBytes(FakeRandom(seed)(32))
    backend = FileBackend(key, random=random or FakeRandom("nonces"), path=Path("kek"))
    return SingleKek(backend, kek_id=backend.derived_id, proof=None)
