"""The PCK certificate: what Intel writes about a platform into the certificate of its provisioning key."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from types import SimpleNamespace
from typing import Literal, TypeVar

from cryptography import x509
from cryptography.hazmat import asn1

from attest.endorsements.asn1 import inside, tlv, whole
from attest.endorsements.malformed import malformed
from attest.endorsements.x509 import Certificate
from attest.errors import ChainError

PCK_COMMON_NAME = "Intel SGX PCK Certificate"
PckCa = Literal["platform", "processor"]
_CAS: dict[str, PckCa] = {"Intel SGX PCK Platform CA": "platform", "Intel SGX PCK Processor CA": "processor"}

_EXTENSION = "1.2.840.113741.1.13.1"


def _identifiers(owner: str, count: int) -> tuple[x509.ObjectIdentifier, ...]:
    return tuple(x509.ObjectIdentifier(f"{owner}.{number}") for number in range(1, count + 1))


_PPID, _TCB, _PCE_ID, _FMSPC, _SGX_TYPE, _INSTANCE, _CONFIGURATION = _identifiers(_EXTENSION, 7)
*_COMPONENTS, _PCE_SVN, _CPU_SVN = _identifiers(f"{_EXTENSION}.2", 18)
_DYNAMIC, _CACHED_KEYS, _SMT = _identifiers(f"{_EXTENSION}.7", 3)
_MEMBERS = frozenset(_identifiers(_EXTENSION, 7))
_TCB_MEMBERS = frozenset(_identifiers(f"{_EXTENSION}.2", 18))
_CONFIGURATION_MEMBERS = frozenset(_identifiers(f"{_EXTENSION}.7", 3))
_MAX_SVN = 0xFF
_ENUMERATED = 0x0A
_malformed = partial(
    malformed,
    code="pck-malformed",
    of=" of the PCK certificate",
    clause="Intel SGX PCK certificate and CRL profile, 3.5; intel-tdx-sgx.md 6",
)
_T = TypeVar("_T")


class SgxType(enum.IntEnum):
    """Kind of memory protection of the platform."""

    STANDARD = 0
    SCALABLE = 1
    SCALABLE_WITH_INTEGRITY = 2


_SGX_TYPES = {tlv(_ENUMERATED, bytes([kind])): kind for kind in SgxType}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PckCertificate:
    """A PCK certificate with its extension decoded; not trusted until its chain is verified.

    Attributes:
        certificate: the certificate as presented.
        ca: the issuing CA, one of Intel's two, by the issuer's CN.
        ppid: platform provisioning id, 16 bytes.
        component_svns: the 16 SVNs that TCB info counts, each 0 to 255; ``cpu_svn`` is the same as bytes.
        cpu_svn: 16 bytes.
        pce_svn: SVN of the provisioning certification enclave, 0 to 65,535.
        pce_id: 2 bytes, in the order written.
        fmspc: family, model, stepping, platform and custom SKU, 6 bytes, in the order written.
        sgx_type: kind of memory protection.
        platform_instance_id: 16 bytes; None where the certificate has none (Processor CA).
        dynamic_platform: packages may be added; None where the certificate does not say (Processor CA).
        cached_keys: Intel holds the platform's root keys; None likewise.
        smt_enabled: simultaneous multithreading; None likewise.
        unknown_members: object identifiers in the extension that have no meaning here.
    """

    certificate: Certificate
    ca: PckCa
    ppid: bytes
    component_svns: tuple[int, ...]
    cpu_svn: bytes
    pce_svn: int
    pce_id: bytes
    fmspc: bytes
    sgx_type: SgxType
    platform_instance_id: bytes | None
    dynamic_platform: bool | None
    cached_keys: bool | None
    smt_enabled: bool | None
    unknown_members: tuple[str, ...]


@asn1.sequence
class _Element(SimpleNamespace):
    """One pair of object identifier and value, the value left as it is; see ``endorsements.asn1`` for its base."""

    __init__ = SimpleNamespace.__init__
    oid: x509.ObjectIdentifier
    value: asn1.TLV


@asn1.sequence
class _ElementsHolder:
    """A SEQUENCE of pairs inside a SEQUENCE of our own: the decoder wants a declared structure outside."""

    members: list[_Element]


_Value = int | bytes | bool | asn1.TLV


@asn1.sequence
class _Member(SimpleNamespace):
    """The same pair; a value of one of the first three kinds is decoded, which is faster than doing so one by one."""

    __init__ = SimpleNamespace.__init__
    oid: x509.ObjectIdentifier
    value: _Value


@asn1.sequence
class _MembersHolder:
    """The same SEQUENCE of pairs."""

    members: list[_Member]


_Elements = Mapping[x509.ObjectIdentifier, asn1.TLV]
_Members = Mapping[x509.ObjectIdentifier, _Value]
_NO_MEMBERS: _Members = {}


@lru_cache(maxsize=1024)
def read_pck(certificate: Certificate) -> PckCertificate:
    """Decode the SGX extension of a PCK certificate.

    Members that are not known are listed and otherwise ignored: Intel may add some.

    Raises:
        EvidenceError: ``pck-malformed``: no such extension, a member missing, repeated, out of range or unreadable,
            or a CPUSVN that differs from the components.
        ChainError: ``pck-name-unexpected``: the subject's or the issuer's CN is not that of a PCK certificate.

    Spec: Intel SGX PCK certificate and CRL profile, section 3.5; specs/intel-tdx-sgx.md, section 6, check T03.
    """
    extension = certificate.extension(_EXTENSION)
    if extension is None:
        raise _malformed("SGX extension", _EXTENSION, "none")
    found = _members(extension.value, "SGX extension")
    tcb = _nested(_member(found, _TCB, "TCB"), "TCB")
    configuration: _Members = (
        _nested(found[_CONFIGURATION], "configuration") if _CONFIGURATION in found else _NO_MEMBERS
    )
    components = _components(tcb)
    cpu_svn = _octets(tcb, _CPU_SVN, "CPUSVN", 16)
    if cpu_svn != bytes(components):
        raise _malformed("CPUSVN", f"{bytes(components).hex()}, the components", cpu_svn.hex())
    unknown = (found.keys() - _MEMBERS) | (tcb.keys() - _TCB_MEMBERS) | (configuration.keys() - _CONFIGURATION_MEMBERS)
    return PckCertificate(
        certificate=certificate,
        ppid=_octets(found, _PPID, "PPID", 16),
        component_svns=components,
        cpu_svn=cpu_svn,
        pce_svn=_integer(tcb, _PCE_SVN, "PCESVN", 0xFFFF),
        pce_id=_octets(found, _PCE_ID, "PCEID", 2),
        fmspc=_octets(found, _FMSPC, "FMSPC", 6),
        sgx_type=_sgx_type(_member(found, _SGX_TYPE, "SGX type")),
        platform_instance_id=_octets(found, _INSTANCE, "platform instance id", 16) if _INSTANCE in found else None,
        dynamic_platform=_boolean(configuration, _DYNAMIC, "dynamic platform"),
        cached_keys=_boolean(configuration, _CACHED_KEYS, "cached keys"),
        smt_enabled=_boolean(configuration, _SMT, "SMT enabled"),
        unknown_members=tuple(sorted(oid.dotted_string.removeprefix(_EXTENSION) for oid in unknown)),
        ca=_ca(certificate),
    )


def _ca(certificate: Certificate) -> PckCa:
    if certificate.common_name != PCK_COMMON_NAME:
        raise _misnamed("subject", PCK_COMMON_NAME, certificate.name)
    ca = _CAS.get(certificate.issuer_common_name or "")
    if ca is None:
        raise _misnamed("issuer", " or ".join(_CAS), certificate.issuer_common_name or "a name without one CN")
    return ca


def _elements(der: bytes, what: str) -> _Elements:
    """Read a SEQUENCE OF pairs, each member once."""
    holder = tlv(0x30, der)
    decoded = _decoded(what, "a SEQUENCE of pairs", lambda: asn1.decode_der(_ElementsHolder, holder)).members
    return _once({member.oid: member.value for member in decoded}, len(decoded), what)


def _members(der: bytes, what: str) -> _Members:
    """Read a SEQUENCE OF pairs, each member once, with its values."""
    try:
        decoded = asn1.decode_der(_MembersHolder, tlv(0x30, der)).members
    except (ValueError, OverflowError):
        return _elements(der, what)  # a broken value is refused by its name, where anybody asks for it
    return _once({member.oid: member.value for member in decoded}, len(decoded), what)


def _nested(value: _Value, what: str) -> _Members:
    if not isinstance(value, asn1.TLV):
        raise _malformed(what, "a SEQUENCE of pairs", "other DER")
    return _members(whole(value), what)


def _once(found: Mapping[x509.ObjectIdentifier, _T], count: int, what: str) -> Mapping[x509.ObjectIdentifier, _T]:
    if len(found) != count:
        raise _malformed(what, "each member once", "one that stands twice")
    return found


def _member(found: Mapping[x509.ObjectIdentifier, _T], oid: x509.ObjectIdentifier, what: str) -> _T:
    if oid not in found:
        raise _malformed(what, f"a member {oid.dotted_string}", "none")
    return found[oid]


def _decoded(what: str, expected: str, decode: Callable[[], _T]) -> _T:
    try:
        return decode()
    except (ValueError, OverflowError) as exc:
        raise _malformed(what, expected, "other DER") from exc


def _of_kind(value: _Value, kind: type[_T], what: str, expected: str) -> _T:
    if type(value) is kind:
        return value
    if isinstance(value, asn1.TLV):
        return _decoded(what, expected, lambda: inside(value, kind))
    raise _malformed(what, expected, "other DER")


def _octets(found: _Members, oid: x509.ObjectIdentifier, what: str, size: int) -> bytes:
    value = _of_kind(_member(found, oid, what), bytes, what, "an OCTET STRING")
    if len(value) != size:
        raise _malformed(what, f"{size} bytes", f"{len(value)} bytes")
    return value


def _integer(found: _Members, oid: x509.ObjectIdentifier, what: str, most: int) -> int:
    value = _of_kind(_member(found, oid, what), int, what, "an INTEGER")
    if not 0 <= value <= most:
        raise _malformed(what, f"0 to {most}", "another number")
    return value


def _components(tcb: _Members) -> tuple[int, ...]:
    values = [tcb.get(oid) for oid in _COMPONENTS]
    found = tuple([value for value in values if type(value) is int and 0 <= value <= _MAX_SVN])
    if len(found) == len(_COMPONENTS):
        return found
    # Again, one at a time, which says what is wrong and where.
    return tuple(_integer(tcb, oid, f"TCB component {i}", _MAX_SVN) for i, oid in enumerate(_COMPONENTS, start=1))


def _boolean(found: _Members, oid: x509.ObjectIdentifier, what: str) -> bool | None:
    value = found.get(oid)
    return None if value is None else _of_kind(value, bool, what, "a BOOLEAN")


def _sgx_type(value: _Value) -> SgxType:
    """SGX type is an ENUMERATED, which the decoder does not know: it is compared as a whole."""
    encoded = asn1.encode_der(value)
    kind = _SGX_TYPES.get(encoded)
    if kind is None:
        element = asn1.decode_der(asn1.TLV, encoded)
        got = f"tag {element.tag_bytes.hex()}, {element.data.hex()[:40]}"
        raise _malformed("SGX type", "ENUMERATED 0, 1 or 2", got)
    return kind


def _misnamed(whose: str, expected: str, got: str) -> ChainError:
    return ChainError(
        f"{whose} CN of the PCK certificate: expected {expected}, got {got}",
        code="pck-name-unexpected",
        field=f"{whose} CN",
        expected=expected,
        got=got,
        clause="intel-tdx-sgx.md 6, T02",
    )
