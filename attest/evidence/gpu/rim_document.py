"""Contents of a RIM: the strict reading of its SWID document (specs/nvidia-gpu.md, section 9.2).

Whatever is not in the tables here refuses. Nothing is judged that is not in the document: neither the id under which
a RIM is served nor "driver" or "VBIOS" is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.gpu.xml_signature import XmlElement, malformed

RimEdition: TypeAlias = Literal["GPU", "SWITCH"]
"""Component that a RIM describes."""

INDICES = 64
"""Records of either edition, active or not, are numbered from 0; a switch's report has only 31 blocks."""
MAX_ALTERNATIVES = 64
"""Maximum of alternatives of one measurement; the most seen is 4."""
_SWID = "{http://standards.iso.org/iso/19770/-2/2015/schema.xsd}"
_RIM = "{https://trustedcomputinggroup.org/resource/tcg-reference-integrity-manifest-rim-information-model/}"
_HASH = "{http://www.w3.org/2001/04/xmlenc#sha384}Hash"
_OPAQUE_DATA = "{https://docs.nvidia.com/attestation/specs/latest/opaque-data.html}"

_Patterns: TypeAlias = Mapping[str, re.Pattern[str]]


def _patterns(table: Mapping[str, str]) -> _Patterns:
    return {name: re.compile(pattern) for name, pattern in table.items()}


_NONE = _patterns({})
_NAME = r"[A-Za-z0-9_]{1,32}"
_VERSION = r"[0-9A-Za-z.]{1,64}"
_TAG = r"[0-9A-Za-z._:-]{1,128}"
_TEXT = r"[ -~]{1,256}"

_ROOT = _patterns({"name": _NAME, "tagId": _TAG, "version": r"1\.0", "tagVersion": "0"})
_ROOT_OPTIONAL = _patterns({"corpus": "false", "patch": "false", "supplemental": "false"})
_ENTITY = _patterns({"name": _TEXT, "role": _TEXT})
_META = _patterns(
    {
        "colloquialVersion": _VERSION,
        "edition": "GPU|SWITCH",
        "product": _NAME,
        "revision": _TEXT,
        "PayloadType": "direct",
        f"{_RIM}BindingSpec": "RIMIM",
        f"{_RIM}BindingSpecVersion": r"1\.01",
        f"{_RIM}PlatformManufacturerId": "5703",
        f"{_RIM}PlatformManufacturerStr": _TEXT,
        f"{_RIM}PlatformModel": _NAME,
        f"{_RIM}FirmwareManufacturer": _TEXT,
        f"{_RIM}FirmwareManufacturerId": "5703",
    }
)
_RESOURCE = _patterns(
    {
        "type": "Measurement",
        "index": "0|[1-9][0-9]?",
        "active": "True|False",
        "alternatives": "[1-9][0-9]?",
        "name": _TEXT,
        "size": "48",
    }
)
_DIGEST = re.compile("[0-9a-f]{96}")
_HASHES = tuple(f"{_HASH}{number}" for number in range(MAX_ALTERNATIVES))


@dataclass(frozen=True, slots=True, kw_only=True)
class RimContent:
    """The facts of one RIM, as far as they are used.

    Attributes:
        reference_values: index to the digests of 48 bytes of which one has to be found there; active records only.
        names: NVIDIA's names of these records by index, 1 to 256 printable characters.
    """

    product: str
    edition: RimEdition
    version: str
    tag_id: str
    reference_values: Mapping[int, tuple[bytes, ...]]
    names: Mapping[int, str]


def read_content(root: XmlElement) -> RimContent:
    """Read a SoftwareIdentity whose Signature was taken away.

    Raises:
        EvidenceError: ``rim-malformed``.
        UnsupportedError: ``rim-unsupported``, numeric reference values, which newer RIMs may carry.

    Spec: specs/nvidia-gpu.md, sections 4.3 and 9.2.
    """
    try:
        return _read(root)
    except EvidenceError:
        _require_no_numeric_values(root)  # which says more than that something is unknown
        raise


def _read(root: XmlElement) -> RimContent:
    identity = _attributes(root, "SoftwareIdentity", _ROOT, _ROOT_OPTIONAL)
    if [child.tag for child in root.children] != [f"{_SWID}Entity", f"{_SWID}Meta", f"{_SWID}Payload"]:
        got = ", ".join(child.tag for child in root.children)
        expected = "Entity, Meta, Payload, Signature"
        raise malformed("other children of SoftwareIdentity", field="SoftwareIdentity", expected=expected, got=got)
    entity, meta_element, payload = root.children
    _require_empty(entity, "Entity")
    _attributes(entity, "Entity", _ENTITY)
    _require_empty(meta_element, "Meta")
    meta = _attributes(meta_element, "Meta", _META)
    if not identity["name"] == meta["product"] == meta[f"{_RIM}PlatformModel"]:
        raise malformed("name, product and PlatformModel differ", field="Meta.product", got=meta["product"])
    edition: RimEdition = "GPU" if meta["edition"] == "GPU" else "SWITCH"  # _META allows no third
    values, names = _reference_values(payload)
    return RimContent(
        product=meta["product"],
        edition=edition,
        version=meta["colloquialVersion"],
        tag_id=identity["tagId"],
        reference_values=MappingProxyType(values),
        names=MappingProxyType(names),
    )


def _require_no_numeric_values(element: XmlElement) -> None:
    for child in element.children:
        _require_no_numeric_values(child)
    found = [name for name in element.attributes if name.startswith(_OPAQUE_DATA)]
    if found:
        raise UnsupportedError(
            "this RIM demands numbers of the versioned opaque data, which this version cannot compare",
            code="rim-unsupported",
            field=found[0],
            clause="NVIDIA nvtrust, versioned opaque data",
            hint="a newer version of this verifier may read it",
        )


def _attributes(element: XmlElement, name: str, required: _Patterns, optional: _Patterns = _NONE) -> Mapping[str, str]:
    """Return the attributes of an element that has all the required ones and none but those in the tables.

    Hashes are passed over in a record, which judges them itself.
    """
    if element.tag != _SWID + name:
        raise malformed(f"expected {name}", field=name, expected=_SWID + name, got=element.tag)
    if not element.is_blank():
        raise malformed(f"text inside {name}", field=name)
    for attribute, value in element.attributes.items():
        pattern = required.get(attribute) or optional.get(attribute)
        if pattern is None:
            if required is _RESOURCE and attribute.startswith(_HASH):
                continue
            raise malformed(f"unknown attribute {attribute!r}", field=name)
        if not pattern.fullmatch(value):
            raise malformed(
                f"attribute {attribute} of {name}", field=attribute, expected=pattern.pattern, got=repr(value[:80])
            )
    for attribute in required:
        if attribute not in element.attributes:
            raise malformed(f"{name} without {attribute}", field=attribute)
    return element.attributes


def _require_empty(element: XmlElement, name: str) -> None:
    if element.children:
        raise malformed(f"children of {name}", field=name, got=element.children[0].tag)


def _reference_values(payload: XmlElement) -> tuple[dict[int, tuple[bytes, ...]], dict[int, str]]:
    """Return digests and names of the active records, by index."""
    _attributes(payload, "Payload", _NONE)
    seen: set[int] = set()
    active: dict[int, tuple[bytes, ...]] = {}
    names: dict[int, str] = {}
    for resource in payload.children:
        _require_empty(resource, "Resource")
        index, is_active, digests = _record(resource)
        if index in seen or index >= INDICES:
            problem = "twice" if index in seen else f"beyond the last, {INDICES - 1}"
            raise malformed(f"measurement {index} {problem}", field=f"Resource[{index}].index")
        seen.add(index)
        if is_active:
            active[index], names[index] = digests, resource.attributes["name"]
    if not active:  # nothing would be compared, and nothing would differ
        raise malformed("no active measurement", field="Payload")
    return active, names


def _record(resource: XmlElement) -> tuple[int, bool, tuple[bytes, ...]]:
    record = _attributes(resource, "Resource", _RESOURCE)
    index, count = int(record["index"]), int(record["alternatives"])
    path = f"Resource[{index}]"
    hashes = [record.get(name) for name in _HASHES[:count]]
    found = len(record) - len(_RESOURCE)
    if count > MAX_ALTERNATIVES or found != count or None in hashes:
        expected = f"Hash0 to Hash{count - 1}, at most {MAX_ALTERNATIVES}"
        raise malformed(f"{path} with {found} of {count} alternatives", field=path, expected=expected)
    return index, record["active"] == "True", tuple(_digest(text or "", path) for text in hashes)


def _digest(text: str, path: str) -> bytes:
    if not _DIGEST.fullmatch(text):
        got = f"{len(text)} characters"
        raise malformed(f"a hash of {path}", field=path, expected="96 lower-case hex digits", got=got)
    return bytes.fromhex(text)
