"""Sealed files: Tink's streaming encryption (AES256_GCM_HKDF_1MB), read and written in parallel.

::

    from attest.sealed import FileSource, SealedReader, seal_file, unseal_file

    seal_file("model.bin", "model.bin.sealed", key=key, associated_data=b"model.bin", random=os.urandom)
    with SealedReader(FileSource("model.bin.sealed"), key=key, associated_data=b"model.bin") as reader:
        reader.read_into(offset, buffer)             # any range, decrypted straight into the buffer
        unseal_file(reader, "/dev/shm/model.bin", random=os.urandom)

    seal_directory("model", "model-sealed", key=key, names=SealingNames(key=KeyReference.parse("model@1")), …)
    with open_directory("model-sealed", key=key, trusted=(owner,)) as model:      # or a store: HTTP, S3
        model.open("weights.safetensors").read_into(offset, buffer)

    with sealed.open("model.bin.sealed", key=key, associated_data=b"model.bin") as file: …       # a binary file object
    load_model(model)                                                                 # its tensors, as NumPy arrays

``layout`` is the arithmetic, ``cipher`` one segment, ``keyset`` the key for Tink libraries; they are pure. ``sources``
provides bytes, ``segment_reader`` and ``file_sealer`` process them. For models, ``manifest`` and ``oms`` define the
signed documents, ``directory`` verifies and opens, ``model_sealer``, ``model_unsealer`` and ``key_rotation`` write.
"""

from __future__ import annotations

from attest.sealed.cipher import FileHeader, SegmentCipher
from attest.sealed.directory import SealedDirectory, VerifiedDirectory, open_directory, verify_directory
from attest.sealed.file_object import SealedFileObject, open_file
from attest.sealed.file_object import open as open  # noqa: A004  sealed.open, but not for import *
from attest.sealed.file_sealer import SealedFile, seal_file, seal_to, unseal_file
from attest.sealed.http_source import HttpSource, HttpStore
from attest.sealed.key_rotation import rewrap
from attest.sealed.key_sources import KeyProvider, KeySource
from attest.sealed.keyset import key_from_tink, tink_keyset
from attest.sealed.layout import ciphertext_size, plaintext_size
from attest.sealed.locations import source_of, store_of
from attest.sealed.manifest import SealedEntry, SealedManifest
from attest.sealed.model_sealer import SealedModel, SealingNames, seal_directory
from attest.sealed.model_unsealer import UnsealedModel, unseal_directory, verify_plaintext
from attest.sealed.oms import ModelResource, VerifiedModel, sign_model, verify_model
from attest.sealed.ranges import RetryPolicy
from attest.sealed.s3_source import S3Source, S3Store
from attest.sealed.safetensors import load_tensors, open_tensors
from attest.sealed.segment_reader import SealedReader
from attest.sealed.signing_keys import read_trusted_key
from attest.sealed.sources import FileSource, Readable, Source
from attest.sealed.stores import FileStore, FolderStore
from attest.sealed.tensor_set import ModelFiles, TensorSet, load_model, open_model

__all__ = [
    "FileHeader",
    "FileSource",
    "FileStore",
    "FolderStore",
    "HttpSource",
    "HttpStore",
    "KeyProvider",
    "KeySource",
    "ModelFiles",
    "ModelResource",
    "Readable",
    "RetryPolicy",
    "S3Source",
    "S3Store",
    "SealedDirectory",
    "SealedEntry",
    "SealedFile",
    "SealedFileObject",
    "SealedManifest",
    "SealedModel",
    "SealedReader",
    "SealingNames",
    "SegmentCipher",
    "Source",
    "TensorSet",
    "UnsealedModel",
    "VerifiedDirectory",
    "VerifiedModel",
    "ciphertext_size",
    "key_from_tink",
    "load_model",
    "load_tensors",
    "open_directory",
    "open_file",
    "open_model",
    "open_tensors",
    "plaintext_size",
    "read_trusted_key",
    "rewrap",
    "seal_directory",
    "seal_file",
    "seal_to",
    "sign_model",
    "source_of",
    "store_of",
    "tink_keyset",
    "unseal_directory",
    "unseal_file",
    "verify_directory",
    "verify_model",
    "verify_plaintext",
]
