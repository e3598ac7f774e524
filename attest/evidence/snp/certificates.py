"""VCEK and VLEK: what AMD writes into the certificate of a report's signing key."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache

from cryptography.hazmat import asn1
from cryptography.hazmat.primitives.asymmetric import ec

from attest.endorsements.signatures import load_public_key
from attest.endorsements.x509 import Certificate
from attest.errors import ChainError
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.evidence.tolerances import UnknownValue

_ARC = "1.3.6.1.4.1.3704.1."
_STRUCT_VERSION = "1"
_PRODUCT_NAME = "2"
_BOOTLOADER = "3.1"
_TEE = "3.2"
_SNP = "3.3"
_MICROCODE = "3.8"
_FMC = "3.9"
_HWID = "4"
_CSP_ID = "5"
_SPARE_SPLS = {"3.4": "spl4", "3.5": "spl5", "3.6": "spl6", "3.7": "spl7"}
_MAX_SPL = 255
_CLAUSE = "AMD 57230, extensions"
_OCTET_STRING = 0x04


class LeafKind(enum.StrEnum):
    """The signing key: that of the chip (VCEK) or one that AMD lent to a cloud provider (VLEK)."""

    VCEK = "vcek"
    VLEK = "vlek"

    @property
    def common_name(self) -> str:
        """Subject CN of such a certificate."""
        return f"SEV-{self.upper()}"

    def issuer_common_name(self, product: SnpProduct) -> str:
        """Subject CN of the intermediate that issues such certificates."""
        return f"SEV-{product}" if self is LeafKind.VCEK else f"SEV-VLEK-{product}"


_KIND_OF_NAME = {kind.common_name: kind for kind in LeafKind}


def kind_of(certificate: Certificate) -> LeafKind | None:
    """Return the kind of leaf that a certificate claims by its name, or None when it is no leaf of AMD's."""
    return _KIND_OF_NAME.get(certificate.common_name or "")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SnpLeaf:
    """A VCEK or VLEK certificate with its extensions decoded; not trusted until its chain is verified.

    Attributes:
        kind: by its CN.
        product: by its issuer's CN and by productName, which agree.
        tcb: the SPL extensions.
        spares: levels above 0 of components that have no known meaning, by AMD's names for them (``spl4``).
        hwid: 64 bytes (Turin 8) for a VCEK; None for a VLEK.
        csp_id: the cloud provider of a VLEK; None for a VCEK.
        product_name: as written, such as ``Milan-B0``; the stepping in it is known to be wrong for some chips.
    """

    certificate: Certificate
    kind: LeafKind
    product: SnpProduct
    tcb: SnpTcbVersion
    spares: tuple[tuple[str, int], ...]
    hwid: bytes | None
    csp_id: str | None
    product_name: str
    struct_version: int
    unknown_extensions: tuple[str, ...]

    @property
    def unknown_values(self) -> tuple[UnknownValue, ...]:
        """The spare levels, which verification refuses unless they are named: AMD may have given them a meaning."""
        return tuple(UnknownValue(f"{name}:{level}", _spare_level(name, level)) for name, level in self.spares)


@lru_cache(maxsize=1024)
def read_leaf(certificate: Certificate) -> SnpLeaf:
    """Decode the extensions of a VCEK or VLEK.

    Raises:
        ChainError: ``snp-leaf-malformed``: an extension missing, misplaced or unreadable, another kind of key,
            or names that disagree about the product line.

    Spec: AMD 57230 and 58369; specs/sev-snp.md, sections 8 and 9, check S03.
    """
    kind = kind_of(certificate)
    if kind is None:
        raise _malformed("subject CN", "SEV-VCEK or SEV-VLEK", certificate.name)
    found = {e.oid.removeprefix(_ARC): e.value for e in certificate.extensions if e.oid.startswith(_ARC)}
    key = load_public_key(certificate.spki)
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp384r1":
        raise _malformed("public key", "ECDSA P-384", type(key).__name__)
    product_name = _text(found, _PRODUCT_NAME, "productName")
    product = _product(certificate, kind, product_name)
    if kind is LeafKind.VCEK:
        _require_absent(found, _CSP_ID, "CSP_ID in a VCEK")
    else:
        _require_absent(found, _HWID, "HWID in a VLEK")
    return SnpLeaf(
        certificate=certificate,
        kind=kind,
        product=product,
        tcb=_tcb(found, product),
        spares=_spares(found, product),
        hwid=_hwid(found, product) if kind is LeafKind.VCEK else None,
        csp_id=_text(found, _CSP_ID, "CSP_ID") if kind is LeafKind.VLEK else None,
        product_name=product_name,
        struct_version=_integer(found, _STRUCT_VERSION, "structVersion"),
        unknown_extensions=tuple(sorted(set(found) - _KNOWN)),
    )


_KNOWN = frozenset(
    {_STRUCT_VERSION, _PRODUCT_NAME, _BOOTLOADER, _TEE, _SNP, _MICROCODE, _FMC, _HWID, _CSP_ID, *_SPARE_SPLS}
)


def _product(certificate: Certificate, kind: LeafKind, product_name: str) -> SnpProduct:
    """Find the product line by the issuer's CN; productName (without its stepping) must agree."""
    issuer = certificate.issuer_common_name or ""
    product = next((p for p in SnpProduct if kind.issuer_common_name(p) == issuer), None)
    if product is None:
        raise _malformed("issuer CN", f"the intermediate of a {kind.upper()}", issuer or "no CN")
    if product_name.partition("-")[0] != product:
        raise _malformed("productName", str(product), product_name)
    return product


def _tcb(found: dict[str, bytes], product: SnpProduct) -> SnpTcbVersion:
    if not product.has_fmc:
        _require_absent(found, _FMC, f"fmcSPL on {product}")
    return SnpTcbVersion(
        bootloader=_spl(found, _BOOTLOADER, "blSPL"),
        tee=_spl(found, _TEE, "teeSPL"),
        snp=_spl(found, _SNP, "snpSPL"),
        microcode=_spl(found, _MICROCODE, "ucodeSPL"),
        fmc=_spl(found, _FMC, "fmcSPL") if product.has_fmc else None,
    )


def _spares(found: dict[str, bytes], product: SnpProduct) -> tuple[tuple[str, int], ...]:
    # Turin's certificates leave out the first spare; every other one is there.
    stated = [suffix for suffix in _SPARE_SPLS if suffix != "3.4" or not product.has_fmc or suffix in found]
    levels = [(_SPARE_SPLS[suffix], _spl(found, suffix, "spare SPL")) for suffix in stated]
    return tuple((name, level) for name, level in levels if level)


def _spare_level(name: str, level: int) -> ChainError:
    suffix = next(suffix for suffix, known in _SPARE_SPLS.items() if known == name)
    error = _malformed(f"extension {suffix} ({name})", "0", f"{level}, which is not understood and therefore refused")
    error.hint = (
        "a newer version may know this component; a policy whose author knows it can accept the level: "
        f"accepted_spls, '{name}:{level}'"
    )
    return error


def _hwid(found: dict[str, bytes], product: SnpProduct) -> bytes:
    """HWID: raw bytes in AMD's certificates, an OCTET STRING around them in others; never anything between."""
    value, size = _value(found, _HWID, "HWID"), product.hwid_bytes
    if len(value) == size + 2 and value[:2] == bytes([_OCTET_STRING, size]):
        value = value[2:]
    if len(value) != size:
        raise _malformed("HWID", f"{size} bytes", f"{len(value)} bytes")
    return value


def _value(found: dict[str, bytes], suffix: str, name: str) -> bytes:
    if suffix not in found:
        raise _malformed(f"{name} ({_ARC}{suffix})", "exactly one such extension", "none")
    return found[suffix]


def _require_absent(found: dict[str, bytes], suffix: str, name: str) -> None:
    if suffix in found:
        raise _malformed(name, "no such extension", found[suffix].hex()[:40])


def _integer(found: dict[str, bytes], suffix: str, name: str) -> int:
    try:
        return asn1.decode_der(int, _value(found, suffix, name))
    except (ValueError, OverflowError) as exc:
        raise _malformed(name, "an INTEGER", "other DER") from exc


def _spl(found: dict[str, bytes], suffix: str, name: str) -> int:
    level = _integer(found, suffix, name)
    if not 0 <= level <= _MAX_SPL:
        raise _malformed(name, f"0 to {_MAX_SPL}", "another number")
    return level


def _text(found: dict[str, bytes], suffix: str, name: str) -> str:
    try:
        return asn1.decode_der(asn1.IA5String, _value(found, suffix, name)).as_str()
    except ValueError as exc:
        raise _malformed(name, "an IA5String", "other DER") from exc


def _malformed(what: str, expected: str, got: str) -> ChainError:
    return ChainError(
        f"{what} of the report's certificate: expected {expected}, got {got}",
        code="snp-leaf-malformed",
        check="snp.leaf",
        field=what,
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )
