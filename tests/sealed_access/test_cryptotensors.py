"""CryptoTensors files: what its package writes is read, and nothing else."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from attest.errors import (
    AppraisalError,
    AttestError,
    ConfigurationError,
    SealedFileError,
    SealedTamperError,
    SignatureError,
)
from attest.sealed import cryptotensors as module
from attest.sealed.cryptotensors import CryptoTensorsFile, open_cryptotensors
from attest.sealed.cryptotensors_header import ALGORITHMS, VerifiedCryptoTensors
from tests.sealed_access.cryptotensors_made import (
    SIGNER,
    STRANGER,
    Made,
    compact,
    make,
    master,
    package_reads,
    package_writes,
    text64,
)
from tests.sealed_access.making import Arrays, Plain, safetensors_bytes

ARRAYS: Arrays = {
    "big": np.arange(700, dtype=np.float32).reshape(70, 10),
    "empty": np.zeros((0, 4), np.float32),
    'ü \u2028\x7f"é😀': np.arange(3, dtype=np.int16),
    "b": np.arange(64, dtype=np.uint8),
}
TRUSTED = (STRANGER.public_key(), SIGNER.public_key())
BOTH = pytest.mark.parametrize("version", ["1", "2"])
EVERY = pytest.mark.parametrize("algorithm", list(ALGORITHMS))


def opened(content: bytes, **options: Any) -> CryptoTensorsFile:  # noqa: ANN401  tests
    return open_cryptotensors(Plain(content), **{"key": master(), "trusted": TRUSTED, **options})


def refused(content: bytes, **options: Any) -> AttestError:  # noqa: ANN401  tests
    plain = Plain(content)
    with pytest.raises(AttestError) as error:
        open_cryptotensors(plain, **{"key": master(), "trusted": TRUSTED, **options})
    assert plain.closed
    return error.value


def same(got: dict[str, Any], expected: Arrays) -> None:
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert got[name].dtype == array.dtype
        assert np.array_equal(got[name], array)


@BOTH
@EVERY
def test_tensors_are_decrypted(version: str, algorithm: str) -> None:
    made = make(ARRAYS, version=version, algorithm=algorithm, metadata={"alpha": "\x01\x7fü\n/", "zeta": "1"})
    with opened(made.file(), key=master(algorithm), threads=3) as tensors:
        assert tensors.keys() == sorted(ARRAYS)
        assert tensors.metadata() == made.metadata
        assert tensors.verified.key_id == "e1"
        same(tensors.load(), ARRAYS)
        for rows in (slice(None), 3, slice(10, 12), slice(0, 70, 7), slice(5, 5)):
            assert np.array_equal(tensors.get_slice("big")[rows], ARRAYS["big"][rows])


def test_a_slice_reads_only_its_chunks() -> None:
    plain = Plain(make(ARRAYS, chunk_size=400).file())
    with open_cryptotensors(plain, key=master(), trusted=TRUSTED) as tensors:
        before = len(plain.asked)
        assert np.array_equal(tensors.get_slice("big")[11:12], ARRAYS["big"][11:12])
        assert [size for _, size in plain.asked[before:]] == [400]


@BOTH
@EVERY
def test_what_the_package_writes_is_read(tmp_path: Path, version: str, algorithm: str) -> None:
    metadata = {"zeta": "1", "alpha": "\x01\x7fü\n/"}
    package_writes(tmp_path / "x", ARRAYS, algorithm=algorithm, metadata=metadata, version=version, chunk_size=1024)
    with opened((tmp_path / "x").read_bytes(), key=master(algorithm)) as tensors:
        same(tensors.load(), ARRAYS)
        assert tensors.metadata() == metadata
        assert tensors.verified.version == version


@BOTH
@EVERY
def test_the_package_reads_what_the_encoder_of_these_tests_writes(tmp_path: Path, version: str, algorithm: str) -> None:
    made = make(ARRAYS, version=version, algorithm=algorithm)
    (tmp_path / "x").write_bytes(made.file())
    assert package_reads(tmp_path / "x", algorithm=algorithm) == {n: one.tobytes().hex() for n, one in ARRAYS.items()}


# -- signature and policy


@pytest.mark.parametrize("trusted", [(), (STRANGER.public_key(),)])
def test_a_signature_of_nobody_that_is_trusted_is_refused(trusted: tuple[Ed25519PublicKey, ...]) -> None:
    error = refused(make(ARRAYS).file(), trusted=trusted)
    assert isinstance(error, SignatureError)
    assert error.code == "cryptotensors-signature-invalid"


def test_a_file_that_vouches_for_itself_is_refused() -> None:
    """The header may carry or point to a key to verify with; neither counts."""
    made = make(ARRAYS)
    made.keys["sign"]["x"] = text64(STRANGER.public_key().public_bytes_raw())
    made.keys["sign"]["jku"] = "https://attacker.example/keys"
    error = refused(made.file(signer=STRANGER), trusted=(SIGNER.public_key(),))
    assert error.code == "cryptotensors-signature-invalid"


def test_the_key_is_not_asked_for_before_the_header_holds() -> None:
    asked: list[VerifiedCryptoTensors] = []

    def give(verified: VerifiedCryptoTensors) -> bytes:
        asked.append(verified)
        return master()

    refused(make(ARRAYS).file(signer=STRANGER), key=give, trusted=(SIGNER.public_key(),))
    assert not asked
    with opened(make(ARRAYS).file(), key=give) as tensors:
        same(tensors.load(), ARRAYS)
    assert [one.key_id for one in asked] == ["e1"]


def test_every_changed_byte_of_the_header_is_refused() -> None:
    content = make({"w": np.arange(3, dtype=np.uint8)}, metadata={"k": "v"}).file(pad=b" ")
    length = int.from_bytes(content[:8], "little")
    for at in range(8 + length):
        altered = bytearray(content)
        altered[at] ^= 1
        refused(bytes(altered))
    for end in range(len(content)):
        refused(content[:end])
    refused(content + b"x")


@BOTH
def test_every_changed_byte_of_the_data_is_refused_and_gives_zeros(version: str) -> None:
    arrays: Arrays = {"w": np.arange(1, 100, dtype=np.uint8)}
    content = make(arrays, version=version).file()
    begin = len(content) - 99
    for at in range(begin, len(content)):
        altered = bytearray(content)
        altered[at] ^= 0x80
        with opened(bytes(altered)) as tensors:
            memory = memoryview(bytearray(b"?" * 99))
            with pytest.raises(SealedTamperError) as error:
                tensors.read_into(tensors.info("w"), 0, memory)
            assert error.value.code == "cryptotensors-tensor-invalid"
            assert bytes(memory) == bytes(99)


def test_tensors_that_swap_places_are_refused() -> None:
    made = make({"a": np.arange(64, dtype=np.uint8), "b": np.arange(64, dtype=np.uint8)})
    made.data = made.data[64:] + made.data[:64]
    with opened(made.file()) as tensors:
        for name in ("a", "b"):
            with pytest.raises(SealedTamperError):
                tensors.get_tensor(name)


def test_a_policy_of_its_own_is_evaluated_or_refused() -> None:
    content = make(ARRAYS, policy="package model\nallow = false").file()
    error = refused(content)
    assert (type(error), error.code) == (AppraisalError, "cryptotensors-policy-not-evaluated")
    seen: list[str] = []
    for answer in (False, None, 1):

        def policy(text: str, answer: object = answer) -> object:
            seen.append(text)
            return answer

        error = refused(content, policy=policy)
        assert (type(error), error.code) == (AppraisalError, "cryptotensors-policy-denied")
    with opened(content, policy=lambda text: True) as tensors:
        same(tensors.load(), ARRAYS)
    assert set(seen) == {"package model\nallow = false"}


# -- what is not protected, and keys


def test_a_tensor_that_is_not_encrypted_is_refused_unless_that_is_said() -> None:
    content = make(ARRAYS, only={"big", "empty"}).file()
    with opened(content) as tensors:
        assert np.array_equal(tensors.get_tensor("big"), ARRAYS["big"])
        with pytest.raises(SealedTamperError) as error:
            tensors.get_tensor("b")
        assert error.value.code == "cryptotensors-tensor-unprotected"
        with pytest.raises(SealedTamperError):
            tensors.load()
    with opened(content, unverified_tensors=True) as tensors:
        same(tensors.load(), ARRAYS)
        assert np.array_equal(tensors.get_slice("b")[3:9], ARRAYS["b"][3:9])


def test_another_master_key_opens_nothing() -> None:
    with opened(make(ARRAYS).file(), key=bytes(32)) as tensors, pytest.raises(SealedTamperError) as tampered:
        tensors.get_tensor("big")
    assert tampered.value.code == "sealed-key-mismatch"
    error = refused(make(ARRAYS).file(), key=bytes(16))
    assert (type(error), error.code) == (ConfigurationError, "sealed-key-length")


def test_a_ciphertext_too_long_for_one_piece_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ONE_SHOT_BYTES", 2000)
    with opened(make(ARRAYS, version="1").file()) as tensors, pytest.raises(SealedFileError, match="one ciphertext"):
        tensors.get_tensor("big")


# -- headers that are signed and wrong all the same


def edited(edit: Callable[[Made], None], version: str = "2") -> bytes:
    made = make({"w": np.arange(100, dtype=np.uint8)}, version=version)
    edit(made)
    return made.file()


def entry(**changes: Any) -> Callable[[Made], None]:  # noqa: ANN401  tests
    def edit(made: Made) -> None:
        made.encryption["w"].update(changes)

    return edit


def keys(**changes: Any) -> Callable[[Made], None]:  # noqa: ANN401  tests
    return lambda made: made.keys.update(changes)


WRONG: list[Callable[[Made], None]] = [
    keys(chunk_size=0),
    keys(chunk_size=-1),
    keys(chunk_size="64"),
    keys(chunk_size=64.0),
    keys(chunk_size=True),
    keys(chunk_size=1 << 31),
    keys(chunk_size=49),
    keys(chunk_size=32),
    keys(enc=None),
    keys(enc=[]),
    lambda made: made.keys.pop("enc"),
    lambda made: made.keys.pop("chunk_size"),
    entry(tags=text64(bytes(16))),
    entry(tags=text64(bytes(48))),
    entry(tags=""),
    entry(tags="*"),
    entry(tags=None),
    entry(base_iv=text64(bytes(11))),
    entry(base_iv=text64(bytes(13))),
    entry(base_iv=""),
    entry(base_iv=text64(b"12345678" + bytes([255] * 4))),
    entry(key_iv=text64(bytes(11))),
    entry(key_tag=text64(bytes(12))),
    entry(wrapped_key=text64(bytes(16))),
    entry(wrapped_key=text64(bytes(33))),
    entry(wrapped_key=text64(bytes(32)).rstrip("=")),
    entry(more="x"),
    lambda made: made.encryption["w"].pop("tags"),
    lambda made: made.encryption.update(other=made.encryption["w"]),
    lambda made: made.encryption.update(w=[]),
    lambda made: setattr(made, "encryption", []),
    lambda made: setattr(made, "policy", []),
    lambda made: setattr(made, "policy", {"local": "x"}),
    lambda made: setattr(made, "policy", {"local": "x", "remote": 1}),
    lambda made: setattr(made, "policy", {"local": "x", "remote": "x", "more": "x"}),
]


@pytest.mark.parametrize("edit", WRONG)
def test_a_signed_header_that_is_wrong_is_refused(edit: Callable[[Made], None]) -> None:
    assert refused(edited(edit)).code == "cryptotensors-malformed"


@pytest.mark.parametrize(
    "edit",
    [
        keys(version="3"),
        keys(version=2),
        lambda made: made.keys.pop("version"),
        keys(enc={"alg": "aes256ctr"}),
        keys(enc={"alg": None}),
        keys(enc={}),
    ],
)
def test_what_this_version_does_not_know_is_said(edit: Callable[[Made], None]) -> None:
    assert refused(edited(edit)).code == "cryptotensors-unsupported"


def test_version_1_has_a_nonce_and_a_tag_or_neither() -> None:
    for changes in ({"tag": ""}, {"iv": ""}, {"tag": text64(bytes(32))}):
        assert refused(edited(entry(**changes), version="1")).code == "cryptotensors-malformed"


def test_a_key_id_may_be_absent() -> None:
    with opened(edited(keys(enc={"alg": "aes256gcm"}))) as tensors:
        assert tensors.verified.key_id is None


@pytest.mark.parametrize("name", ["__crypto_keys__", "__encryption__", "__policy__"])
def test_every_member_of_the_format_has_to_be_there_and_to_be_json(name: str) -> None:
    made = make(ARRAYS)
    assert (
        refused(made.file(change=lambda document: document["__metadata__"].pop(name))).code == "cryptotensors-malformed"
    )
    for text in ("", "{", '{"a":1,"a":2}', "[]"):
        changed = replace(made, metadata={**made.metadata, name: text})
        content = changed.file()
        assert refused(content).code == "cryptotensors-malformed"


def test_a_signature_has_to_be_there_and_to_be_one() -> None:
    made = make(ARRAYS)
    assert refused(made.file(signature="*")).code == "cryptotensors-malformed"
    for signature in ("", text64(bytes(63)), text64(bytes(64))):
        assert refused(made.file(signature=signature)).code == "cryptotensors-signature-invalid"
    header = compact({"__metadata__": made.texts(), **made.header}).encode()
    assert refused(safetensors_bytes(header, made.data)).code == "cryptotensors-malformed"


def test_a_header_in_another_spelling_than_it_is_signed_in_is_refused() -> None:
    content = make(ARRAYS).file()
    length = int.from_bytes(content[:8], "little")
    document = json.loads(content[8 : 8 + length])
    for raw in (json.dumps(document).encode(), json.dumps(document, ensure_ascii=False).encode()):
        assert refused(safetensors_bytes(raw, content[8 + length :])).code == "cryptotensors-malformed"


def test_a_plain_safetensors_file_is_none() -> None:
    for header in ({}, {"__metadata__": {"a": "b"}}):
        assert refused(safetensors_bytes(header)).code == "cryptotensors-malformed"
