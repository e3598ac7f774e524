"""Trust anchors: the root keys that a Verifier accepts.

Anchors are arguments of every verification. They are pinned by the SHA-256 of their SubjectPublicKeyInfo; with the
public key itself, a chain needs no root certificate. A root from evidence, a cache or a vendor's service is only
compared with a pin, never added.

The simulation's roots are a set of their own. ``TrustAnchors.vendors()`` contains none of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, cast, get_args

from cryptography import x509
from cryptography.x509.oid import NameOID

from attest.encoding import hex_bytes
from attest.endorsements.roots import (
    AMD_ARK_MODULI,
    INTEL_SGX_ROOT_POINT,
    NVIDIA_DEVICE_ROOT_POINT,
    NVIDIA_RIM_ROOT_POINT,
)
from attest.endorsements.x509 import Issuer
from attest.errors import ConfigurationError, EvidenceError

AnchorRole = Literal["amd-ark", "intel-sgx-root", "nvidia-device-root", "nvidia-rim-root"]
"""Roles of anchors."""

ANCHOR_FILE_SCHEMA = "attest.anchors/1"
_T = TypeVar("_T")

# SubjectPublicKeyInfo of an RSA key of 4096 bits with exponent 65537, without the modulus.
_RSA_4096_SPKI_HEAD = bytes.fromhex("30820222300d06092a864886f70d01010105000382020f003082020a0282020100")
_RSA_65537_SPKI_TAIL = bytes.fromhex("0203010001")
# SubjectPublicKeyInfo of a P-256 key, without the uncompressed point.
_P256_SPKI_HEAD = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
_P384_SPKI_HEAD = bytes.fromhex("3076301006072a8648ce3d020106052b81040022036200")


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One root key that a Verifier Owner accepts.

    Attributes:
        name: for messages (``ARK-Milan``).
        role: evidence that it authenticates.
        product: its product line (``Milan``); Intel has one root for all, ``SGX``.
        spki_sha256: SHA-256 of its SubjectPublicKeyInfo, 32 bytes.
        subject: its DER Name, if the key itself is known.
        spki: its SubjectPublicKeyInfo, if the key itself is known.
        not_before: start of a known key's validity, included.
        not_after: end of a known key's validity, included.
        simulated: the simulator's: results under it prove nothing about hardware.
    """

    name: str
    role: AnchorRole
    product: str
    spki_sha256: bytes
    subject: bytes | None = None
    spki: bytes | None = None
    not_before: datetime | None = None
    not_after: datetime | None = None
    simulated: bool = False

    def held_issuer(self) -> Issuer | None:
        """Return the anchor as an issuer, if the key itself is known."""
        if self.spki is None or self.subject is None:
            return None
        return Issuer(self.name, self.subject, self.spki)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustAnchors:
    """A set of anchors. The empty set accepts nothing."""

    anchors: tuple[Anchor, ...]

    @staticmethod
    def vendors() -> TrustAnchors:
        """Return the vendors' production roots only."""
        return _VENDORS

    @staticmethod
    def simulation() -> TrustAnchors:
        """Return the simulator's roots only. Their private keys are public by design."""
        return _SIMULATION

    def with_anchors(self, more: Iterable[Anchor]) -> TrustAnchors:
        """Return this set with more anchors."""
        return TrustAnchors(anchors=(*self.anchors, *more))

    def without(self, names: Iterable[str]) -> TrustAnchors:
        """Return this set without the anchors of these names.

        Raises:
            ConfigurationError: ``anchor-unknown``, a name outside the set.
        """
        gone = set(names)
        unknown = gone - {anchor.name for anchor in self.anchors}
        if unknown:
            known = ", ".join(anchor.name for anchor in self.anchors)
            raise ConfigurationError(f"no anchor is called {min(unknown)!r}", code="anchor-unknown", expected=known)
        return TrustAnchors(anchors=tuple(anchor for anchor in self.anchors if anchor.name not in gone))

    @property
    def accept_simulated(self) -> bool:
        """True if an anchor is the simulator's: evidence that proves nothing is accepted."""
        return any(anchor.simulated for anchor in self.anchors)

    def of_role(self, role: AnchorRole) -> tuple[Anchor, ...]:
        """Return the anchors of a role."""
        return tuple(anchor for anchor in self.anchors if anchor.role == role)

    def pinned(self, spki_sha256: bytes, *, role: AnchorRole) -> Anchor | None:
        """Return the anchor of this role with this key digest, if there is one."""
        return next((a for a in self.anchors if a.role == role and a.spki_sha256 == spki_sha256), None)


def amd_name(common_name: str, *, organisation: str = "Advanced Micro Devices") -> bytes:
    """Return the DER Name in AMD's form (specs/sev-snp.md, section 8)."""
    return _name(
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "Engineering"),
        (NameOID.COUNTRY_NAME, "US"),
        (NameOID.LOCALITY_NAME, "Santa Clara"),
        (NameOID.STATE_OR_PROVINCE_NAME, "CA"),
        (NameOID.ORGANIZATION_NAME, organisation),
        (NameOID.COMMON_NAME, common_name),
    )


def intel_name(common_name: str, *, organisation: str = "Intel Corporation") -> bytes:
    """Return the DER Name in the form of Intel's DCAP certificates (specs/intel-tdx-sgx.md, section 7)."""
    return _name(
        (NameOID.COMMON_NAME, common_name),
        (NameOID.ORGANIZATION_NAME, organisation),
        (NameOID.LOCALITY_NAME, "Santa Clara"),
        (NameOID.STATE_OR_PROVINCE_NAME, "CA"),
        (NameOID.COUNTRY_NAME, "US"),
    )


def _name(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes]).public_bytes()


def _ark(product: str, pin: str, *, not_before: datetime) -> Anchor:
    """Return the AMD Root Key of a product line; its certificate is valid for 25 years."""
    name = f"ARK-{product}"
    return Anchor(
        name=name,
        role="amd-ark",
        product=product,
        spki_sha256=bytes.fromhex(pin),
        subject=amd_name(name),
        spki=_RSA_4096_SPKI_HEAD + bytes.fromhex(AMD_ARK_MODULI[product]) + _RSA_65537_SPKI_TAIL,
        not_before=not_before,
        not_after=not_before.replace(year=not_before.year + 25),
    )


_VENDORS = TrustAnchors(
    anchors=(
        _ark(
            "Milan",
            "9f056bee44377e29308cb5ffa895bdfb62d18881fa6bed8d6f075b0204089cb9",
            not_before=datetime(2020, 10, 22, 17, 23, 5, tzinfo=UTC),
        ),
        _ark(
            "Genoa",
            "429a69c9422aa258ee4d8db5fcda9c6470ef15f8cd5a9cebd6cbc7d90b863831",
            not_before=datetime(2022, 1, 26, 15, 34, 37, tzinfo=UTC),
        ),
        _ark(
            "Turin",
            "4f125410563a2ab9a50356f9243f6fe0b6f73de98603f53f90339c70e9d7ad08",
            not_before=datetime(2023, 5, 15, 20, 3, 12, tzinfo=UTC),
        ),
        Anchor(
            name="Intel SGX Root CA",
            role="intel-sgx-root",
            product="SGX",
            spki_sha256=bytes.fromhex("a0af031289f5d5d4132f9186068a7fc13628633ba235777472e29b6b6c67a49e"),
            subject=intel_name("Intel SGX Root CA"),
            spki=_P256_SPKI_HEAD + bytes.fromhex(INTEL_SGX_ROOT_POINT),
            not_before=datetime(2018, 5, 21, 10, 45, 10, tzinfo=UTC),
            not_after=datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC),
        ),
        Anchor(
            name="NVIDIA Device Identity CA",
            role="nvidia-device-root",
            product="NVIDIA",
            spki_sha256=bytes.fromhex("a90c4eb5acfd3e3d03a25db6a26b84f720ad0503196c627c21ddd48dd85b06a4"),
            subject=_name((NameOID.COMMON_NAME, "NVIDIA Device Identity CA"), (NameOID.ORGANIZATION_NAME, "NVIDIA")),
            spki=_P384_SPKI_HEAD + bytes.fromhex(NVIDIA_DEVICE_ROOT_POINT),
            not_before=datetime(2021, 11, 5, tzinfo=UTC),
            not_after=datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
        ),
        Anchor(
            name="NVIDIA CoRIM signing Root CA",
            role="nvidia-rim-root",
            product="NVIDIA RIM",
            spki_sha256=bytes.fromhex("dec1dc316477aa851eebdf51327ae9f864bc8d89254657ed1e7eb9168af1e1a3"),
            subject=_name(
                (NameOID.COUNTRY_NAME, "US"),
                (NameOID.ORGANIZATION_NAME, "NVIDIA"),
                (NameOID.COMMON_NAME, "NVIDIA CoRIM signing Root CA"),
            ),
            spki=_P384_SPKI_HEAD + bytes.fromhex(NVIDIA_RIM_ROOT_POINT),
            not_before=datetime(2023, 3, 16, 15, 37, 34, tzinfo=UTC),
            not_after=datetime(2053, 3, 8, 15, 37, 34, tzinfo=UTC),
        ),
    )
)
_SIMULATED_PINS = {
    "ARK-Milan": "13ba5621789593ad7c6321447b6ee4d70f649eebb9c5da086c2d223ebe103ea1",
    "ARK-Genoa": "74a79e6d4c96d0c50f1794d37e797bd5c71a05a3d007d62c9e7a08c278ed21f0",
    "ARK-Turin": "6fb0143057c0690c9e4c528bd9a80a257f08a7ae6da4a073169dfba0b6aaa128",
    "Intel SGX Root CA": "3dd59826230b942f0a45738183b131c27abed7cdc77dd808fd9c4b03bf8be90e",
    "NVIDIA Device Identity CA": "e0f6187a76af3c041fe805cf7068302a8672bedd2cb3b30b9740ec504e4887bd",
    "NVIDIA CoRIM signing Root CA": "d97e254e1e8911884874ae00c1cbb510a30b4cfeedffaa5d5efef25ed50acf77",
}
"""Pin of the simulator's counterpart of each production root."""
_SIMULATION = TrustAnchors(
    anchors=tuple(
        Anchor(
            name=f"SIMULATED {root.name}",
            role=root.role,
            product=root.product,
            spki_sha256=bytes.fromhex(_SIMULATED_PINS[root.name]),
            simulated=True,
        )
        for root in _VENDORS.anchors
    )
)


def read_anchor_file(text: bytes, *, base: TrustAnchors) -> TrustAnchors:
    """Apply an operator's anchor file to a set of anchors.

    TOML: ``schema = "attest.anchors/1"``, an optional list ``remove`` of names, and any number of ``[[add]]`` tables
    with ``name``, ``role``, ``product`` and ``spki_sha256`` (64 hex digits).

    Raises:
        ConfigurationError: ``anchor-file-invalid`` or ``anchor-unknown``.
    """
    try:
        document = tomllib.loads(text.decode("utf-8"))
    except ValueError as exc:
        raise _bad_file(f"not TOML: {exc}") from exc
    if document.pop("schema", None) != ANCHOR_FILE_SCHEMA:
        raise _bad_file(f"schema: expected {ANCHOR_FILE_SCHEMA!r}")
    remove = _take_list(document, "remove", str, "a list of names")
    add: list[dict[str, Any]] = _take_list(document, "add", dict, "[[add]] tables")
    if document:
        raise _bad_file(f"unknown key {min(document)!r}")
    return base.without(remove).with_anchors([_anchor_of(table, index=i) for i, table in enumerate(add)])


def _take_list(document: dict[str, object], name: str, kind: type[_T], expected: str) -> list[_T]:
    value = document.pop(name, [])
    if not isinstance(value, list) or not all(isinstance(entry, kind) for entry in cast("list[object]", value)):
        raise _bad_file(f"{name}: expected {expected}")
    return cast("list[_T]", value)


def _anchor_of(table: dict[str, Any], *, index: int) -> Anchor:  # Any: TOML, whose types are compared here
    path = f"add[{index}]"
    texts = {name: value for name, value in table.items() if isinstance(value, str)}
    if set(table) != {"name", "role", "product", "spki_sha256"} or len(texts) != len(table):
        raise _bad_file(f"{path}: expected the texts name, role, product and spki_sha256")
    if texts["role"] not in get_args(AnchorRole):
        raise _bad_file(f"{path}.role: expected one of {', '.join(get_args(AnchorRole))}, got {texts['role']!r}")
    try:
        pin = hex_bytes(texts["spki_sha256"], what=f"{path}.spki_sha256", length=32)
    except EvidenceError as exc:
        raise _bad_file(exc.message) from exc
    role = cast("AnchorRole", texts["role"])  # checked above
    if any(anchor.spki_sha256 == pin for anchor in _SIMULATION.anchors):  # of any role
        raise _bad_file(f"{path}.spki_sha256: a root of the simulator, whose key is public; use --allow-simulated")
    return Anchor(name=texts["name"], role=role, product=texts["product"], spki_sha256=pin)


def _bad_file(problem: str) -> ConfigurationError:
    return ConfigurationError(f"anchor file: {problem}", code="anchor-file-invalid", hint="see docs/trust-anchors.md")
