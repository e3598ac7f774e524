"""The file that carries a receipt with its chain, whole or by digests; in CBOR, and losslessly in JSON.

::

    file    = {"schema": "attest.receipt-file/1", "receipt": bytes, "statement": part, "evidence": part,
               "models": [{"manifest": part, "signature": part, "release": part | null}, …]}
    part    = bytes | {"sha256": 32 bytes}                    a reference to a part that comes as a file of its own
    release = {"receipt": note, "entry": bytes, "proof": text}        of the key of a model, as its service gave it

CBOR is canonical. In JSON, bytes are base64url and digests hex; the receipt is ``{"claims", "signatures"}``. Both forms
hold the same, so each gives the other back byte by byte. ``models`` are the parts of the model record that the receipt
names, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final, TypeAlias, cast

from attest.encoding import CborValue, JsonValue, canonical_json, cbor_bytes, cbor_value, json_value
from attest.errors import EndorsementError, EvidenceError
from attest.evidence.envelope import MAX_ENVELOPE_BYTES
from attest.receipts.json_view import part_from_json, part_to_json, receipt_from_json, receipt_to_json
from attest.receipts.map_reader import HINT, MapReader, malformed
from attest.receipts.signed_receipt import MAX_RECEIPT_BYTES, SignedReceipt, parse_receipt
from attest.receipts.statement import MAX_PARTS, MAX_STATEMENT_BYTES

FILE_SCHEMA: Final = "attest.receipt-file/1"
FILE_TYPE: Final = "application/vnd.attest.receipt-file+cbor"
MAX_FILE_BYTES: Final = 64 * 1024 * 1024
MAX_SIGNED_BYTES: Final = 32 * 1024 * 1024
"""Of a manifest or its signature."""
MAX_RELEASE_BYTES: Final = 1024 * 1024
_MAX_VALUES: Final = 1024
"""Of a file in CBOR; the largest, with ``MAX_PARTS`` models, has less than half of it."""
_MAX_MARKS: Final = 64 * 1024
"""Commas and opening brackets of a file in JSON, those inside its texts included."""
_MEMBERS: Final = frozenset[int | str]({"schema", "receipt", "statement", "evidence", "models"})
_MAP_OF_MEMBERS: Final = bytes([0xA0 | len(_MEMBERS)])
"""First byte of a file in CBOR."""
_MODEL: Final = frozenset[int | str]({"manifest", "signature", "release"})
_RELEASE: Final = frozenset[int | str]({"receipt", "entry", "proof"})
_RELEASE_VALUES: Final = 1 + 2 * len(_RELEASE)


@dataclass(frozen=True, slots=True)
class PartReference:
    """A part that the file names by its SHA-256, and does not contain."""

    sha256: bytes


Part: TypeAlias = bytes | PartReference


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePart:
    """The release of a key, as its workload received it; not verified.

    Attributes:
        receipt: the service's signed note.
        entry: the decision's entry of the log.
        proof: of the entry's inclusion.
    """

    receipt: str
    entry: bytes
    proof: str

    def to_bytes(self) -> bytes:
        """Return the canonical CBOR, whose SHA-256 is in the model record."""
        return cbor_bytes({"receipt": self.receipt, "entry": self.entry, "proof": self.proof})

    @staticmethod
    def parse(data: bytes) -> ReleasePart:
        """Parse a release.

        Raises:
            EvidenceError: ``receipt-malformed`` or ``cbor-invalid``.
        """
        members = MapReader(cbor_value(data, what="release", most=_RELEASE_VALUES), "release", _RELEASE)
        receipt, proof = members.value("receipt"), members.value("proof")
        if not isinstance(receipt, str) or not isinstance(proof, str):
            raise malformed("release", "receipt and proof as text", "another type")
        return ReleasePart(receipt=receipt, entry=members.octets("entry", range(MAX_RELEASE_BYTES)), proof=proof)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelParts:
    """The chain of one part of a model: its manifest, the owner's signature, and the release of its key."""

    manifest: Part
    signature: Part
    release: Part | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptFile:
    """A receipt with its chain, parsed and not verified.

    Attributes:
        statement: of the machine, see ``statement``.
        evidence: an envelope, JSON or CBOR.
        models: for each part of the model record, in its order.
    """

    receipt: SignedReceipt
    statement: Part
    evidence: Part
    models: tuple[ModelParts, ...]

    def to_bytes(self) -> bytes:
        """Return the file in canonical CBOR."""
        document = self._document(lambda receipt: receipt.to_bytes(), _part_value)
        return cbor_bytes(cast("CborValue", document))  # bytes and maps of these

    def to_json(self) -> bytes:
        """Return the file in canonical JSON (RFC 8785)."""
        document = self._document(receipt_to_json, lambda part: part_to_json(_part_value(part)))
        return canonical_json(cast("dict[str, JsonValue]", document)) + b"\n"  # both functions return JSON

    def _document(
        self, receipt: Callable[[SignedReceipt], object], part: Callable[[Part], object]
    ) -> dict[str, object]:
        models = [
            {
                "manifest": part(one.manifest),
                "signature": part(one.signature),
                "release": None if one.release is None else part(one.release),
            }
            for one in self.models
        ]
        return {
            "schema": FILE_SCHEMA,
            "receipt": receipt(self.receipt),
            "statement": part(self.statement),
            "evidence": part(self.evidence),
            "models": models,
        }

    @property
    def parts(self) -> tuple[bytes, ...]:
        """The parts that the file contains."""
        return tuple(part for part in self._all if isinstance(part, bytes))

    @property
    def _all(self) -> tuple[Part, ...]:
        return (self.statement, self.evidence, *(part for one in self.models for part in _of_model(one)))

    @property
    def missing(self) -> frozenset[bytes]:
        """The SHA-256 of each part that the file names and does not contain."""
        return frozenset(part.sha256 for part in self._all if isinstance(part, PartReference))

    def compact(self) -> ReceiptFile:
        """Return the same with a reference in place of each part; ``parts`` are then files of their own."""
        return self._mapped(lambda part: PartReference(sha256(part).digest()) if isinstance(part, bytes) else part)

    def with_parts(self, files: tuple[bytes, ...]) -> ReceiptFile:
        """Return the same with each reference replaced by the file that it names, where that is among these."""
        by_digest = {sha256(one).digest(): one for one in files}
        return self._mapped(lambda part: part if isinstance(part, bytes) else by_digest.get(part.sha256, part))

    def _mapped(self, change: Callable[[Part], Part]) -> ReceiptFile:
        models = tuple(
            ModelParts(
                manifest=change(one.manifest),
                signature=change(one.signature),
                release=None if one.release is None else change(one.release),
            )
            for one in self.models
        )
        return replace(self, statement=change(self.statement), evidence=change(self.evidence), models=models)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptChain:
    """The parts that stand beside every receipt of one statement and model.

    Attributes:
        statement: of the machine.
        evidence: that commits to it.
        models: of the model that answers, and of its adapters.
    """

    statement: bytes
    evidence: bytes
    models: tuple[ModelParts, ...]

    def file(self, receipt: bytes) -> ReceiptFile:
        """Return the file of a receipt.

        Raises:
            EvidenceError: as ``parse_receipt``.
        """
        return ReceiptFile(
            receipt=parse_receipt(receipt), statement=self.statement, evidence=self.evidence, models=self.models
        )


def present(part: Part, name: str) -> bytes:
    """Return a part that has to be here.

    Raises:
        EndorsementError: ``receipt-part-missing``.
    """
    if isinstance(part, bytes):
        return part
    raise EndorsementError(
        f"the receipt names its {name} by a digest, and no given file has it",
        code="receipt-part-missing",
        field=name,
        expected=f"a file with SHA-256 {part.sha256.hex()}",
        got="none",
        clause="docs/receipts.md, the file",
        hint="give the file with --part, or ask the service for the whole receipt",
    )


def parse_receipt_file(data: bytes) -> ReceiptFile:
    """Parse a file, CBOR or JSON by its first byte.

    Raises:
        EvidenceError: ``receipt-malformed``, ``cbor-invalid``, ``json-invalid``, ``base64-invalid`` or ``hex-invalid``.
    """
    try:
        return _parsed(data)
    except EvidenceError as exc:
        exc.check, exc.hint = "receipt.format", exc.hint or HINT
        raise


def _parsed(data: bytes) -> ReceiptFile:
    if len(data) > MAX_FILE_BYTES:
        raise malformed("receipt file", f"at most {MAX_FILE_BYTES} bytes", f"{len(data)} bytes")
    if data.lstrip()[:1] == b"{":
        return _file(json_value(data, what="receipt file", most=_MAX_MARKS), receipt_from_json, part_from_json)
    if data[:1] != _MAP_OF_MEMBERS:
        got = f"a file that begins with {data[:16]!r}" if data else "an empty file"
        raise malformed("receipt file", "a receipt with its chain in CBOR or JSON", got)
    return _file(cbor_value(data, what="receipt file", most=_MAX_VALUES), _receipt_from_cbor, lambda value, _: value)


def _file(
    document: JsonValue | CborValue,
    receipt: Callable[[object], SignedReceipt],
    part: Callable[[object, str], object],
) -> ReceiptFile:
    members = MapReader(document, "receipt file", _MEMBERS)
    if (schema := members.text("schema", 80)) != FILE_SCHEMA:
        raise malformed("receipt file.schema", FILE_SCHEMA, schema)

    def read(value: object, path: str, most: int) -> Part:
        return _part(part(value, path), path, most)

    models = [
        MapReader(one, f"models[{at}]", _MODEL) for at, one in enumerate(members.sequence("models", MAX_PARTS, least=1))
    ]
    return ReceiptFile(
        receipt=receipt(members.value("receipt")),
        statement=read(members.value("statement"), "statement", MAX_STATEMENT_BYTES),
        evidence=read(members.value("evidence"), "evidence", MAX_ENVELOPE_BYTES),
        models=tuple(
            ModelParts(
                manifest=read(one.value("manifest"), one.at("manifest"), MAX_SIGNED_BYTES),
                signature=read(one.value("signature"), one.at("signature"), MAX_SIGNED_BYTES),
                release=None
                if one.value("release") is None
                else read(one.value("release"), one.at("release"), MAX_RELEASE_BYTES),
            )
            for one in models
        ),
    )


def _receipt_from_cbor(value: object) -> SignedReceipt:
    if not isinstance(value, bytes):
        raise malformed("receipt", f"at most {MAX_RECEIPT_BYTES} bytes", "another type")
    return parse_receipt(value)


def _part(value: object, path: str, most: int) -> Part:
    if isinstance(value, Mapping):
        return PartReference(MapReader(value, path, frozenset({"sha256"})).octets("sha256"))
    if not isinstance(value, bytes) or not 0 < len(value) <= most:
        raise malformed(path, f"1 to {most} bytes, or a reference by sha256", "something else")
    return value


def _part_value(part: Part) -> bytes | dict[str, bytes]:
    return part if isinstance(part, bytes) else {"sha256": part.sha256}


def _of_model(model: ModelParts) -> tuple[Part, ...]:
    parts = (model.manifest, model.signature)
    return parts if model.release is None else (*parts, model.release)
