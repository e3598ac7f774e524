"""The document that travels: all evidence of one Attester as a RATS conceptual-message collection.

A collection maps item names to records of media type and bytes (CMW, RFC 9999), as JSON or as canonical CBOR. The
wrapper itself protects nothing: items of one Attester are tied together by ``binding``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha384

from attest.encoding import CborValue, JsonValue, base64url_bytes, base64url_text, cbor_bytes, cbor_value, json_value
from attest.endorsements.pool import NO_ENDORSEMENTS, Endorsements
from attest.errors import EvidenceError

MAX_ENVELOPE_BYTES = 8 * 1024 * 1024
MAX_ITEM_BYTES = 2 * 1024 * 1024
MAX_ITEMS = 64
MAX_DEPTH = 4
MAX_VALUES = 4096
"""Of an envelope in CBOR, keys included: items of the deepest collections, each in one of its own, have 707."""
MAX_NAME_CHARACTERS = 64
MAX_MEDIA_TYPE_CHARACTERS = 512
"""RFC 6838 allows 255 without parameters."""
MAX_INDICATOR = (1 << 32) - 1
"""A bit for each kind of conceptual message, 32 of them."""

PROJECT = "attest"
"""The one word that our own media types carry."""
COLLECTION_TYPE = f"tag:{PROJECT},2026:evidence"
MEDIA_SNP_REPORT = "application/vnd.amd.sev-snp.attestation-report"
MEDIA_SNP_EXTENDED = f"application/vnd.{PROJECT}.snp-extended-report"
"""Report (1,184 bytes) followed by its certificate table."""
MEDIA_CONFIGFS_TSM = "application/vnd.veraison.configfs-tsm+json"
"""Output of the kernel's configfs-tsm: provider, outblob and auxblob."""
MEDIA_INTEL_QUOTE = f"application/vnd.{PROJECT}.intel-quote"
"""A TDX or SGX quote, as the platform hands it out."""
MEDIA_NVIDIA_REPORT = f"application/vnd.{PROJECT}.nvidia-report"
"""The SPDM request and response of a GPU or switch; its certificate chain is among the endorsements."""
MEDIA_NVIDIA_DEVICE = f"application/vnd.{PROJECT}.nvidia-device+json"
"""One device as NVIDIA's SDK writes it, with its chain, and perhaps NVML's statement of the device's mode."""
MEDIA_AZURE_CVM = f"application/vnd.{PROJECT}.azure-cvm+json"
"""An Azure confidential VM as Trustee writes it: the paravisor's report, the TPM's quote, perhaps a TD quote."""
MEDIA_EVENT_LOG = f"application/vnd.{PROJECT}.tcg-event-log"
"""CCEL of a TDX guest, or the log of a TPM, binary; the kind follows from the CPU's evidence."""
MEDIA_DSTACK_LOG = f"application/vnd.{PROJECT}.dstack-event-log+json"
"""The event log of a dstack guest, in JSON."""
MEDIA_DSTACK_STATEMENTS = f"application/vnd.{PROJECT}.dstack-statements+json"
"""Unsigned statements of dstack beside a quote: ``report_data``, ``vm_config``, ``info``, ``app_compose``."""
MEDIA_ATTESTED_CERTIFICATE = f"application/vnd.{PROJECT}.attested-certificate"
"""X.509, DER, with a quote in an extension; the quote is an item of its own."""
MEDIA_COMMITTED_DATA = f"application/vnd.{PROJECT}.committed-data+cbor"
"""Data beside the evidence, to which the evidence commits by a digest."""
MEDIA_UVM_ENDORSEMENT = f"application/vnd.{PROJECT}.uvm-endorsement+cose"
"""Microsoft's statement about the measurement of a utility VM."""
MEDIA_PROVIDER_DOCUMENT = f"application/vnd.{PROJECT}.provider-document+json"
"""A service's whole attestation document, as received: one or several machines and the keys stated beside them."""
MEDIA_PROVIDER_KEYS = f"application/vnd.{PROJECT}.provider-keys+json"
"""The second answer of a service that states its machines' keys in an answer of their own."""
MEDIA_SAMPLE = f"application/vnd.{PROJECT}.sample+json"
"""Trustee's sample evidence of a CPU, which any program can write."""
MEDIA_SAMPLE_DEVICE = f"application/vnd.{PROJECT}.sample-device+json"
"""The same of a device beside the CPU."""
MEDIA_BINDING = f"application/vnd.{PROJECT}.binding+cbor"
MEDIA_ENDORSEMENTS = f"application/vnd.{PROJECT}.endorsements+cbor"

_ALIASES = {"application/vnd.amd.sev.snp.attestation-report": MEDIA_SNP_REPORT}
_EVIDENCE = 4
_ENDORSEMENTS = 2
_TYPE_KEY = "__cmwc_t"


@lru_cache(maxsize=64)
def _essence(media_type: str) -> str:
    essence = media_type.partition(";")[0].strip().lower()
    return _ALIASES.get(essence, essence)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceItem:
    """One record of a collection.

    Attributes:
        name: its label (``cpu``, ``gpu0``, ``binding``).
        media_type: type of the bytes; compared without case and parameters.
        indicator: conceptual message kinds, a bit each; 4 evidence, 2 endorsements, 0 not stated.
    """

    name: str
    media_type: str
    value: bytes
    indicator: int = _EVIDENCE
    _digest: bytes | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def essence(self) -> str:
        """The media type in lower case without its parameters, old names replaced by today's."""
        return _essence(self.media_type)

    @property
    def digest(self) -> bytes:
        """SHA-384 of the canonical CBOR of name, media type and bytes: what a binding lists for this device."""
        if self._digest is None:  # binding, decision, log and seal each use it
            object.__setattr__(self, "_digest", sha384(cbor_bytes((self.name, self.essence, self.value))).digest())
        return self._digest or b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All evidence of one Attester as presented. Nothing of it is trusted yet.

    Attributes:
        items: in the order of the document; names are unique.
        presented: endorsements that was given as files of their own.
    """

    items: tuple[EvidenceItem, ...]
    collection_type: str | None = None
    presented: Endorsements = NO_ENDORSEMENTS

    def __post_init__(self) -> None:
        """Refuse documents that two readers could read differently, or that are unreasonably large.

        Raises:
            EvidenceError: ``envelope-invalid``.
        """
        names = [item.name for item in self.items]
        if not 0 < len(names) <= MAX_ITEMS:
            raise _invalid(f"{len(names)} items, expected 1 to {MAX_ITEMS}")
        if len(set(names)) != len(names):
            raise _invalid("two items of one name")
        if _TYPE_KEY in names:
            raise _invalid(f"{_TYPE_KEY} names the collection's type and no item")
        for item in self.items:
            if len(item.value) > MAX_ITEM_BYTES:
                raise _invalid(f"item {item.name!r} has {len(item.value)} bytes, more than {MAX_ITEM_BYTES}")

    def item(self, name: str) -> EvidenceItem | None:
        """Return the item of this name."""
        return next((item for item in self.items if item.name == name), None)

    @property
    def digest(self) -> bytes:
        """SHA-384 over all items, independent of JSON or CBOR and of their order."""
        return sha384(cbor_bytes(tuple(sorted(item.digest for item in self.items)))).digest()

    def to_json(self) -> bytes:
        """Encode as a JSON collection."""
        members: dict[str, JsonValue] = {_TYPE_KEY: self.collection_type or COLLECTION_TYPE}
        for item in self.items:
            record: list[JsonValue] = [item.media_type, base64url_text(item.value), item.indicator]
            members[item.name] = record if item.indicator else record[:2]
        return json.dumps(members, indent=1).encode() + b"\n"

    def to_cbor(self) -> bytes:
        """Encode as a canonical CBOR collection."""
        members: dict[str, CborValue] = {_TYPE_KEY: self.collection_type or COLLECTION_TYPE}
        for item in self.items:
            record: tuple[CborValue, ...] = (item.media_type, item.value, item.indicator)
            members[item.name] = record if item.indicator else record[:2]
        return cbor_bytes(members)


def parse_envelope(data: bytes) -> Evidence:
    """Read a collection, or a single record as the item ``cpu``; JSON or canonical CBOR by the first byte.

    Items of nested collections, at most ``MAX_DEPTH`` deep, are named ``outer/inner``.

    Raises:
        EvidenceError: ``envelope-invalid``, ``json-invalid``, ``cbor-invalid`` or ``base64-invalid``.
    """
    if len(data) > MAX_ENVELOPE_BYTES:
        raise _invalid(f"{len(data)} bytes, more than {MAX_ENVELOPE_BYTES}")
    text = data.lstrip()[:1] in (b"{", b"[")
    what = "evidence envelope"
    document: JsonValue | CborValue = (
        json_value(data, what=what) if text else cbor_value(data, what=what, most=MAX_VALUES)
    )
    if isinstance(document, list | tuple):
        return Evidence(items=(_record("cpu", document, text=text),))
    if not isinstance(document, Mapping):
        raise _invalid("expected a collection or a record")
    stated = document.get(_TYPE_KEY)
    if stated is not None and not isinstance(stated, str):
        raise _invalid(f"{_TYPE_KEY}: expected text")
    return Evidence(items=tuple(_items(document, prefix="", depth=1, text=text)), collection_type=stated)


def _items(
    collection: Mapping[str, JsonValue] | Mapping[str, CborValue], *, prefix: str, depth: int, text: bool
) -> list[EvidenceItem]:
    if depth > MAX_DEPTH:
        raise _invalid(f"collections nested deeper than {MAX_DEPTH}")
    items: list[EvidenceItem] = []
    for label, member in collection.items():
        if label == _TYPE_KEY:
            continue
        name = prefix + label
        if not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable():
            raise _invalid(f"item names have 1 to {MAX_NAME_CHARACTERS} printable characters")
        if isinstance(member, Mapping):
            items += _items(member, prefix=f"{name}/", depth=depth + 1, text=text)
        elif isinstance(member, list | tuple):
            items.append(_record(name, member, text=text))
        else:
            raise _invalid(f"item {name!r}: expected a record or a collection")
    return items


def _record(
    name: str, record: list[JsonValue] | list[CborValue] | tuple[CborValue, ...], *, text: bool
) -> EvidenceItem:
    """``[media type, value, indicator?]``; the value is base64url in JSON (``text``) and bytes in CBOR."""
    if len(record) not in (2, 3):
        raise _invalid(f"item {name!r}: expected [media type, value] or [media type, value, indicator]")
    media_type, value = record[0], record[1]
    if not isinstance(media_type, str) or not 0 < len(media_type) <= MAX_MEDIA_TYPE_CHARACTERS:
        raise _invalid(f"item {name!r}: a media type is text of 1 to {MAX_MEDIA_TYPE_CHARACTERS} characters")
    if not media_type.isprintable():
        raise _invalid(f"item {name!r}: a media type has printable characters only")
    if text and isinstance(value, str):
        value = base64url_bytes(value, what=f"item {name!r}")
    if not isinstance(value, bytes):
        raise _invalid(f"item {name!r}: the value is base64url text in JSON and a byte string in CBOR")
    indicator = _indicator(name, record[2]) if len(record) == 3 else 0
    return EvidenceItem(name=name, media_type=media_type, value=value, indicator=indicator)


def _indicator(name: str, value: JsonValue | CborValue) -> int:
    """Read an indicator; an empty one is left out, so 0 is never written."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MAX_INDICATOR:
        raise _invalid(f"item {name!r}: the indicator is an integer of 1 to {MAX_INDICATOR}")
    return value


def _invalid(problem: str) -> EvidenceError:
    return EvidenceError(
        f"evidence envelope: {problem}",
        code="envelope-invalid",
        field="envelope",
        clause="RFC 9999",
    )
