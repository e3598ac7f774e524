"""Models and sealed models for tests."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from attest.release.names import KeyReference
from attest.sealed import SealedDirectory, SealedModel, SealingNames, open_directory, seal_directory

OWNER = ec.derive_private_key(20261122, ec.SECP384R1())
STRANGER = ec.derive_private_key(666, ec.SECP384R1())
KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))
FILES = {
    "config.json": b'{"hidden": 384}',
    "empty": b"",
    "model.safetensors": b"weights " * 40_000,
    "tokenizer/vocab.txt": b"a\nb\n",
}
NAMES = SealingNames(key=KeyReference.parse("model@1"))


def stream(seed: object = 0) -> Callable[[int], bytes]:
    """Random bytes that are the same on each run."""
    return random.Random(str(seed)).randbytes


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def read_files(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


@dataclass
class Place:
    """A folder with a model, its sealed form, and what opens it."""

    folder: Path
    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))

    def __post_init__(self) -> None:
        write_files(self.model, self.files)

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def sealed(self) -> Path:
        return self.folder / "sealed"

    def seal(
        self,
        *,
        key: bytes = KEY,
        names: SealingNames = NAMES,
        signer: ec.EllipticCurvePrivateKey = OWNER,
        fingerprints: bool = True,
        seed: object = 0,
    ) -> SealedModel:
        return seal_directory(
            self.model,
            self.sealed,
            key=key,
            names=names,
            signer=signer,
            random=stream(seed),
            at=None,
            fingerprints=fingerprints,
            threads=1,
        )

    def open(self, *, key: bytes = KEY, digests: bool = False) -> SealedDirectory:
        return open_directory(self.sealed, key=key, trusted=(OWNER.public_key(),), verify_digests=digests, threads=1)
