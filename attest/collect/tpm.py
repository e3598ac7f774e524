"""The virtual TPM of this machine, through the TSS (``tpm2-pytss``), which is imported here and nowhere else.

Each operation opens the TPM and closes it again: ``/dev/tpm0`` has one user at a time, and the paravisor needs it to
renew a report. Unlike driver libraries, the TSS runs in this process: it only encodes commands
and writes them to a device, whose driver limits the time of each.

Spec: specs/azure-cvm.md, sections 5 and 8; TPM 2.0 Library, part 3.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol, TypeAlias

from cryptography.hazmat.primitives.asymmetric import rsa

from attest.collect.refusals import refused_by
from attest.errors import CollectionError, EvidenceError
from attest.evidence.tpm.structure import MAX_PCRS, SHA256_BYTES, parse_tpm_signature

DEVICE_TCTI = "device:"
"""Prefix of a TCTI for a device; its path follows."""
NV_PIECE_BYTES = 512
"""Bytes of one TPM2_NV_Read. Every PC's TPM supports this size; ``TPM_PT_NV_BUFFER_MAX`` is often 1,024."""
PCRS_AT_ONCE = 8
"""Capacity of TPML_DIGEST."""
_EXPONENT = 65537
"""Meaning of 0 in a TPM's public area."""

_RC_HANDLE = 0x08B
"""TPM_RC_HANDLE: no such index or key."""
_RC_NV_UNINITIALIZED = 0x14A
_RC_BUSY = {0x908: "TPM_RC_YIELDED", 0x90A: "TPM_RC_TESTING", 0x922: "TPM_RC_RETRY"}
_RC_KNOWN = {
    0x149: ("TPM_RC_NV_AUTHORIZATION", "the index does not let its owner do this; look at tpm2_nvreadpublic"),
    0x14B: ("TPM_RC_NV_SPACE", "the TPM's memory is full; remove an unused index: tpm2_nvundefine"),
    0x8E: ("TPM_RC_AUTH_FAIL", "the owner hierarchy of this TPM has a password, and Azure's has none"),
    0xA2: ("TPM_RC_BAD_AUTH", "the owner hierarchy of this TPM has a password, and Azure's has none"),
    0x921: ("TPM_RC_LOCKOUT", "the TPM is locked after wrong passwords: tpm2_dictionarylockout"),
}
_LAYER = 0xFF0000
_TPM_LAYERS = frozenset({0x000000, 0x0B0000, 0x0C0000})
"""Layers whose return codes are the TPM's: its own, and those of resource managers."""
_HANDLE_BITS = 0x0BF
"""Mask of a format-one return code without the number of handle, parameter or session."""
_FORMAT_ONE = 0x080


@dataclass(frozen=True, slots=True, kw_only=True)
class TpmQuote:
    """A TPM's quote.

    Attributes:
        message: TPMS_ATTEST, all PCRs of the SHA-256 bank.
        signature: RSASSA-PKCS1-v1_5 with SHA-256, of the key's length.
    """

    message: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class NvIndex:
    """An NV index.

    Attributes:
        size: defined size in bytes.
        data: its content; None before the first write.
    """

    size: int
    data: bytes | None


class Tpm(Protocol):
    """Operations of a TPM. Every method raises ``CollectionError`` as ``docs/errors.md``, "Collection"."""

    def nv_size(self, index: int) -> int | None:
        """Return the size of an index without reading it; None if it is undefined."""

    def read_nv(self, index: int, *, limit: int) -> NvIndex | None:
        """Read an index with owner authorisation, in pieces; None if it is undefined."""

    def write_nv(self, index: int, data: bytes) -> None:
        """Write an index with owner authorisation; an undefined one is first defined with the data's size."""

    def read_key(self, handle: int) -> rsa.RSAPublicKey | None:
        """Read the public half of a persistent RSA key; None without a key."""

    def quote(self, handle: int, nonce: bytes) -> TpmQuote:
        """Return a key's signature over all PCRs of the SHA-256 bank, under a nonce."""

    def read_pcrs(self) -> tuple[bytes, ...]:
        """Read the 24 PCRs of the SHA-256 bank. They can change between calls, a quote included."""


OpenTpm: TypeAlias = Callable[[str], Tpm]
"""Type of ``open_tpm``."""


def open_tpm(tcti: str) -> Tpm:
    """Return the TPM of a TCTI, without sending anything.

    Args:
        tcti: in tpm2-tools' notation (``device:/dev/tpmrm0``, ``swtpm:host=127.0.0.1,port=2321``).

    Raises:
        CollectionError: ``tpm-binding-missing``.
    """
    return _TssTpm(tcti, _pytss())


def _pytss() -> ModuleType:
    # The TSS prints a TPM's refusals to standard error; here they become errors.
    os.environ.setdefault("TSS2_LOG", "all+none")
    try:
        return import_module("tpm2_pytss")
    except ImportError as exc:
        raise CollectionError(
            f"the Python package tpm2-pytss cannot be used: {exc}",
            code="tpm-binding-missing",
            expected="tpm2-pytss 3 or later, with the TSS libraries that it was built for",
            got=type(exc).__name__,
            hint="apt-get install libtss2-dev pkg-config gcc python3-dev, then pip install 'attest-kms[tpm]'",
        ) from exc


class _TssTpm:
    """A TPM through tpm2-pytss, which has no types: its results are checked here."""

    def __init__(self, tcti: str, pytss: ModuleType) -> None:
        self._tcti = tcti
        self._pytss = pytss

    def nv_size(self, index: int) -> int | None:
        with self._opened() as esys:
            handle = self._find(esys, index)
            return None if handle is None else self._size(esys, handle, f"NV index {index:#010x}")

    def read_nv(self, index: int, *, limit: int) -> NvIndex | None:
        with self._opened() as esys:
            handle = self._find(esys, index)
            if handle is None:
                return None
            step = f"NV index {index:#010x}"
            size = self._size(esys, handle, step)
            if size > limit:
                raise _strange(step, f"at most {limit} bytes", f"{size} bytes")
            data = b""
            while len(data) < size:
                arguments = (handle, min(NV_PIECE_BYTES, size - len(data)), len(data), self._pytss.ESYS_TR.OWNER)
                try:
                    piece = bytes(esys.nv_read(*arguments))
                except self._pytss.TSS2_Exception as exc:
                    if code_of(int(exc.rc)) == _RC_NV_UNINITIALIZED:
                        return NvIndex(size=size, data=None)
                    raise self._refused(step, exc) from exc
                if not piece:
                    raise _strange(step, f"{size} bytes", f"{len(data)} bytes")
                data += piece
            return NvIndex(size=size, data=data)

    def write_nv(self, index: int, data: bytes) -> None:
        step = f"NV index {index:#010x}"
        with self._opened() as esys:
            handle = self._find(esys, index)
            if handle is None:
                handle = self._call(step, esys.nv_define_space, None, self._nv_public(index, len(data)))
            size = self._size(esys, handle, step)
            if size != len(data):
                raise _strange(step, f"{len(data)} bytes", f"{size} bytes, as it is defined")
            self._call(step, esys.nv_write, handle, data, 0, self._pytss.ESYS_TR.OWNER)

    def read_key(self, handle: int) -> rsa.RSAPublicKey | None:
        step = f"key {handle:#010x}"
        with self._opened() as esys:
            key = self._find(esys, handle)
            if key is None:
                return None
            area = self._call(step, esys.read_public, key)[0].publicArea
            if int(area.type) != int(self._pytss.TPM2_ALG.RSA):
                raise _strange(step, "an RSA key", f"algorithm {int(area.type):#06x}")
            modulus = int.from_bytes(bytes(area.unique.rsa), "big")
            exponent = int(area.parameters.rsaDetail.exponent) or _EXPONENT
        try:
            return rsa.RSAPublicNumbers(exponent, modulus).public_key()
        except ValueError as exc:
            raise _strange(step, "an RSA key", str(exc)) from exc

    def quote(self, handle: int, nonce: bytes) -> TpmQuote:
        step = f"a quote by key {handle:#010x}"
        types = self._pytss
        scheme = types.TPMT_SIG_SCHEME(
            scheme=types.TPM2_ALG.RSASSA,
            details=types.TPMU_SIG_SCHEME(rsassa=types.TPMS_SCHEME_HASH(hashAlg=types.TPM2_ALG.SHA256)),
        )
        with self._opened() as esys:
            key = self._find(esys, handle)
            if key is None:
                raise _strange(step, "a key", "none")
            arguments = (key, _selection(0, MAX_PCRS), types.TPM2B_DATA(nonce), scheme)
            message, signature = self._call(step, esys.quote, *arguments)
            try:
                return TpmQuote(message=bytes(message), signature=parse_tpm_signature(bytes(signature.marshal())))
            except EvidenceError as exc:
                raise _strange(step, exc.expected or "a signature", exc.got or exc.message) from exc

    def read_pcrs(self) -> tuple[bytes, ...]:
        values: list[bytes] = []
        with self._opened() as esys:
            for first in range(0, MAX_PCRS, PCRS_AT_ONCE):
                arguments = _selection(first, PCRS_AT_ONCE)
                _, _, digests = self._call("PCRs of the SHA-256 bank", esys.pcr_read, arguments)
                values += [bytes(digests[number]) for number in range(len(digests))]
        if [len(value) for value in values] != [SHA256_BYTES] * MAX_PCRS:
            raise _strange("PCRs of the SHA-256 bank", f"{MAX_PCRS} values of 32 bytes", f"{len(values)} values")
        return tuple(values)

    @contextmanager
    def _opened(self) -> Iterator[Any]:  # Any: tpm2-pytss has no types
        try:
            esys = self._pytss.ESAPI(self._tcti)
        except self._pytss.TSS2_Exception as exc:
            raise tpm_unreachable(self._tcti, str(exc)) from exc
        try:
            yield esys
        finally:
            esys.close()

    def _find(self, esys: Any, handle: int) -> Any:  # noqa: ANN401  tpm2-pytss has no types
        """Return the TSS's name for a handle of the TPM; None if it is undefined."""
        try:
            return esys.tr_from_tpmpublic(handle)
        except self._pytss.TSS2_Exception as exc:
            if code_of(int(exc.rc)) == _RC_HANDLE:
                return None
            raise self._refused(f"handle {handle:#010x}", exc) from exc

    def _size(self, esys: Any, handle: Any, step: str) -> int:  # noqa: ANN401  tpm2-pytss has no types
        return int(self._call(step, esys.nv_read_public, handle)[0].nvPublic.dataSize)

    def _nv_public(self, index: int, size: int) -> Any:  # noqa: ANN401  tpm2-pytss has no types
        types = self._pytss
        attributes = types.TPMA_NV.OWNERREAD | types.TPMA_NV.OWNERWRITE
        area = types.TPMS_NV_PUBLIC(nvIndex=index, nameAlg=types.TPM2_ALG.SHA256, attributes=attributes, dataSize=size)
        return types.TPM2B_NV_PUBLIC(area)

    def _call(self, step: str, call: Any, *arguments: object) -> Any:  # noqa: ANN401  tpm2-pytss has no types
        try:
            return call(*arguments)
        except self._pytss.TSS2_Exception as exc:
            raise self._refused(step, exc) from exc

    def _refused(self, step: str, exc: Any) -> CollectionError:  # noqa: ANN401  tpm2-pytss has no types
        value = int(exc.rc)
        if value & _LAYER not in _TPM_LAYERS:
            return tpm_unreachable(self._tcti, str(exc))
        return tpm_refused(step, code_of(value), str(exc))


def _selection(first: int, count: int) -> str:
    return "sha256:" + ",".join(map(str, range(first, first + count)))


def code_of(value: int) -> int:
    """Return a TPM's return code without layer and number."""
    code = value & ~_LAYER
    return code & _HANDLE_BITS if code & _FORMAT_ONE else code


def tpm_refused(step: str, code: int, words: str) -> CollectionError:
    """Return the error for a TPM's return code, without layer and number."""
    if code in _RC_BUSY:
        return CollectionError(
            f"{step}: the TPM is busy ({_RC_BUSY[code]})",
            code="collection-busy",
            field=step,
            got=_RC_BUSY[code],
            hint="ask again in a few seconds",
            retryable=True,
        )
    name, hint = _RC_KNOWN.get(code, (f"{code:#05x}", "'tpm2_rc_decode' explains the code"))
    return CollectionError(
        f"{step}: the TPM refused ({name}: {words})",
        code="tpm-refused",
        field=step,
        got=name,
        hint=hint,
    )


def tpm_unreachable(tcti: str, words: str) -> CollectionError:
    """Return the error for an unreachable TPM: the TSS reports only a failing device, the kernel has details."""
    if tcti.startswith(DEVICE_TCTI):
        path = tcti.removeprefix(DEVICE_TCTI)
        try:
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as exc:
            return refused_by("tpm", exc, step=path)
    return CollectionError(
        f"no TPM answers through {tcti!r}: {words}",
        code="tpm-unreachable",
        field=tcti,
        got=words,
        hint="the way to the TPM is device:/dev/tpmrm0, or what --tcti and ATTEST_TCTI say",
    )


def _strange(step: str, expected: str, got: str) -> CollectionError:
    return CollectionError(
        f"{step}: expected {expected}, got {got}",
        code="tpm-answer-unexpected",
        field=step,
        expected=expected,
        got=got,
        hint="this is no TPM as Azure's confidential VMs have it; tpm2_getcap handles-persistent and "
        "tpm2_nvreadpublic show what it holds",
    )
