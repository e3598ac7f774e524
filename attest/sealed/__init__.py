"""Sealed files: Tink's streaming encryption (AES256_GCM_HKDF_1MB), read and written in parallel.

::

    from attest.sealed import FileSource, SealedReader, seal_file, unseal_file

    seal_file("model.bin", "model.bin.sealed", key=key, associated_data=b"model.bin", random=os.urandom)
    with SealedReader(FileSource("model.bin.sealed"), key=key, associated_data=b"model.bin") as reader:
        reader.read_into(offset, buffer)             # any range, decrypted straight into the buffer
        unseal_file(reader, "/dev/shm/model.bin", random=os.urandom)

``layout`` is the arithmetic, ``cipher`` one segment, ``keyset`` the key for Tink libraries; they are pure. ``sources``
says where bytes come from, ``reading`` and ``writing`` do the work.
"""

from attest.sealed.cipher import FileHeader, SegmentCipher
from attest.sealed.keyset import key_from_tink, tink_keyset
from attest.sealed.layout import ciphertext_size, plaintext_size
from attest.sealed.reading import SealedReader
from attest.sealed.sources import FileSource, Source
from attest.sealed.writing import SealedFile, seal_file, unseal_file

__all__ = [
    "FileHeader",
    "FileSource",
    "SealedFile",
    "SealedReader",
    "SegmentCipher",
    "Source",
    "ciphertext_size",
    "key_from_tink",
    "plaintext_size",
    "seal_file",
    "tink_keyset",
    "unseal_file",
]
