"""A small encoder of CryptoTensors files, after FORMAT.md, and the package itself in its own interpreter."""

from __future__ import annotations

import base64
import json
import os
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from attest.sealed.cryptotensors_header import ALGORITHMS, ALWAYS_ALLOW
from tests.sealed_access.making import Arrays, safetensors_bytes

SIGNER = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
STRANGER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))
ENVIRONMENT = "ATTEST_CRYPTOTENSORS_PYTHON"


def master(algorithm: str = "aes256gcm") -> bytes:
    return bytes(range(100, 100 + ALGORITHMS[algorithm]))


def text64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@dataclass
class Made:
    """Parts of a file, to be changed before it is put together.

    Attributes:
        header: everything but ``__metadata__``.
        keys, encryption, policy: the texts of the format, as objects.
        data: the ciphertext.
    """

    header: dict[str, Any]
    keys: dict[str, Any]
    encryption: dict[str, Any]
    policy: Any
    data: bytes
    metadata: dict[str, str]

    def texts(self) -> dict[str, str]:
        return {
            "__crypto_keys__": compact(self.keys),
            "__encryption__": compact(self.encryption),
            "__policy__": compact(self.policy),
            **self.metadata,
        }

    def file(
        self,
        *,
        signer: Ed25519PrivateKey = SIGNER,
        change: Callable[[dict[str, Any]], None] = lambda document: None,
        signature: str | None = None,
        pad: bytes = b"   ",
    ) -> bytes:
        """Sign and put together; ``change`` is made before the signature, so that it is one of the signer."""
        document: dict[str, Any] = {"__metadata__": self.texts(), **self.header}
        change(document)
        signed = compact(document).encode()
        text = text64(signer.sign(signed)) if signature is None else signature
        document["__metadata__"] = dict(sorted({**document["__metadata__"], "__signature__": text}.items()))
        return safetensors_bytes(compact(document).encode() + pad, self.data)


def compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def make(
    arrays: Arrays,
    *,
    version: str = "2",
    algorithm: str = "aes256gcm",
    chunk_size: int = 64,
    only: set[str] | None = None,
    policy: str = ALWAYS_ALLOW,
    metadata: dict[str, str] | None = None,
) -> Made:
    draw = random.Random(f"{version} {algorithm}").randbytes
    kinds = {"float32": "F32", "uint8": "U8", "int16": "I16", "int64": "I64"}
    cipher: Callable[[bytes], Any] = ChaCha20Poly1305 if algorithm == "chacha20poly1305" else AESGCM
    header: dict[str, Any] = {}
    encryption: dict[str, Any] = {}
    data = b""
    for name, array in arrays.items():
        raw = array.tobytes()
        header[name] = {
            "dtype": kinds[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        if only is not None and name not in only:
            data += raw
            continue
        key, key_iv, iv = draw(ALGORITHMS[algorithm]), draw(12), draw(8) + b"\x00\xff\xff\xfe"
        wrapped = cipher(master(algorithm)).encrypt(key_iv, key, None)
        common = {"wrapped_key": text64(wrapped[:-16]), "key_iv": text64(key_iv), "key_tag": text64(wrapped[-16:])}
        if version == "1":
            box = cipher(key).encrypt(iv, raw, None) if raw else b""
            encryption[name] = {**common, "iv": text64(iv if raw else b""), "tag": text64(box[-16:] if raw else b"")}
            data += box[:-16]
            continue
        tags = b""
        for index in range(max(1, -(-len(raw) // chunk_size))):
            counter = 0x00FFFFFE + index
            box = cipher(key).encrypt(iv[:8] + counter.to_bytes(4, "big"), raw[index * chunk_size :][:chunk_size], None)
            data += box[:-16]
            tags += box[-16:]
        encryption[name] = {**common, "base_iv": text64(iv), "tags": text64(tags)}
    return Made(
        header=header,
        keys={
            **({"chunk_size": chunk_size} if version == "2" else {}),
            "enc": {"alg": algorithm, "kid": "e1", "kty": "oct"},
            "sign": {"alg": "ed25519", "kid": "s1", "kty": "okp"},
            "version": version,
        },
        encryption=encryption,
        policy={"local": policy, "remote": ALWAYS_ALLOW},
        data=data,
        metadata=metadata or {},
    )


def interpreter() -> str:
    """Return the interpreter that has the package; skip without it, or fail where it was promised."""
    found = os.environ.get(ENVIRONMENT)
    if found:
        return found
    if os.environ.get("ATTEST_REQUIRE_CRYPTOTENSORS") == "1":
        pytest.fail(f"ATTEST_REQUIRE_CRYPTOTENSORS=1, but {ENVIRONMENT} names no interpreter")
    pytest.skip(f"set {ENVIRONMENT} to an interpreter that has cryptotensors and numpy")


_SCRIPT = """
import json, sys
import numpy
from cryptotensors import safe_open
from cryptotensors.numpy import save_file
job = json.load(sys.stdin)
if job["do"] == "write":
    arrays = {name: numpy.array(v["values"], v["dtype"]).reshape(v["shape"]) for name, v in job["arrays"].items()}
    save_file(arrays, job["path"], metadata=job["metadata"], config=job["config"])
    print("{}")
else:
    try:
        with safe_open(job["path"], "numpy", config=job["config"]) as file:
            print(json.dumps({name: file.get_tensor(name).tobytes().hex() for name in file.keys()}))
    except Exception as exc:
        print(json.dumps({"error": str(exc)}))
"""


def jwks(algorithm: str) -> dict[str, Any]:
    return {
        "enc_key": {"kty": "oct", "alg": algorithm, "k": text64(master(algorithm)), "kid": "e1"},
        "sign_key": {
            "kty": "okp",
            "alg": "ed25519",
            "d": text64(SIGNER.private_bytes_raw()),
            "x": text64(SIGNER.public_key().public_bytes_raw()),
            "kid": "s1",
        },
    }


def package(job: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [interpreter(), "-c", _SCRIPT], input=json.dumps(job), capture_output=True, text=True, check=True, timeout=60
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def package_writes(
    path: Path,
    arrays: Arrays,
    *,
    algorithm: str,
    metadata: dict[str, str],
    version: str,
    chunk_size: int,
) -> None:
    described = {
        name: {"values": one.reshape(-1).tolist(), "dtype": one.dtype.name, "shape": list(one.shape)}
        for name, one in arrays.items()
    }
    package(
        {
            "do": "write",
            "path": str(path),
            "arrays": described,
            "metadata": metadata,
            "config": {**jwks(algorithm), "version": version, "chunk_size": chunk_size},
        }
    )


def package_reads(path: Path, *, algorithm: str) -> dict[str, Any]:
    return package({"do": "read", "path": str(path), "config": jwks(algorithm)})
