r"""The statement of a machine about its receipts: their keys, their validity, and the models that it loaded.

::

    statement = {"schema": "attest.receipt-statement/1", "ed25519": 32 bytes, "ml-dsa-65": 1952 bytes,
                 "not_before", "not_after": Unix seconds, "models": [model record, …]}
    record    = {"parts": [part, …], "quantisation": text | null, "loader": text}      the first part is the model,
    part      = {"manifest": SHA-256 of sealed.json, "model": 16 bytes,                the others are its adapters
                 "files": [{"path", "header": 40 bytes, "decrypted": segments}, …], "release": SHA-256 | null}

    digest of a statement = SHA-256( "attest receipt statement v1\0" ‖ statement )     init_data of the binding
    digest of a record    = SHA-256( "attest model record v1\0" ‖ record )             named by receipts

All of it is canonical CBOR with text keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Final

from attest.encoding import CborValue, cbor_bytes, cbor_value
from attest.receipts.claims import moment_of
from attest.receipts.map_reader import MapReader, malformed
from attest.sealed.layout import HEADER_BYTES, MAX_SEGMENTS
from attest.sealed.load_record import LoadedFile, LoadedModel
from attest.sealed.manifest import MODEL_ID_BYTES
from attest.sealed.names import names_problem

STATEMENT_SCHEMA: Final = "attest.receipt-statement/1"
ED25519_BYTES: Final = 32
ML_DSA_65_BYTES: Final = 1952
MAX_STATEMENT_BYTES: Final = 4 * 1024 * 1024
MAX_MODELS: Final = 64
MAX_PARTS: Final = 32
"""A model with its adapters."""
MAX_PART_FILES: Final = 8192
MAX_LOADER_CHARACTERS: Final = 200
_MAX_VALUES: Final = 512 * 1024
"""More than the files of the largest statement have."""
_STATEMENT_DOMAIN: Final = b"attest receipt statement v1\0"
_RECORD_DOMAIN: Final = b"attest model record v1\0"
_STATEMENT: Final = frozenset[int | str]({"schema", "ed25519", "ml-dsa-65", "not_before", "not_after", "models"})
_RECORD: Final = frozenset[int | str]({"parts", "quantisation", "loader"})
_PART: Final = frozenset[int | str]({"manifest", "model", "files", "release"})
_FILE: Final = frozenset[int | str]({"path", "header", "decrypted"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """One model as loaded. Constructed, it holds what the statement of a machine may contain.

    Attributes:
        parts: the model, then its adapters in the order of their application.
        releases: for each part, the SHA-256 of the release of its key; None for a key from no service.
        quantisation: change that the loader made to the weights; None if it made none.
        loader: name and version of the loading program.

    Raises:
        ValueError: no part, or a text or number of parts beyond the limits.
    """

    parts: tuple[LoadedModel, ...]
    releases: tuple[bytes | None, ...]
    quantisation: str | None
    loader: str

    def __post_init__(self) -> None:
        if not 0 < len(self.parts) <= MAX_PARTS or len(self.releases) != len(self.parts):
            raise ValueError(f"a record has 1 to {MAX_PARTS} parts, each with its release or None")
        for text in (self.loader, *(() if self.quantisation is None else (self.quantisation,))):
            if not 0 < len(text) <= MAX_LOADER_CHARACTERS or not text.isprintable():
                raise ValueError(f"loader and quantisation: 1 to {MAX_LOADER_CHARACTERS} printable characters")

    @property
    def digest(self) -> bytes:
        """The identity of the model that receipts name."""
        return sha256(_RECORD_DOMAIN + cbor_bytes(self.to_value())).digest()

    def is_same_model(self, other: ModelRecord) -> bool:
        """Return True for the same sealed models, loaded in the same way, however much of them is decrypted so far."""
        mine, others = (
            (
                [(part.manifest, part.model) for part in one.parts],
                one.releases,
                one.quantisation,
                one.loader,
            )
            for one in (self, other)
        )
        return mine == others

    def to_value(self) -> CborValue:
        """Return the members."""
        parts = zip(self.parts, self.releases, strict=True)
        return {
            "parts": tuple(_part_value(part, release) for part, release in parts),
            "quantisation": self.quantisation,
            "loader": self.loader,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptStatement:
    """The statement of a machine, trusted once the evidence that commits to it is verified.

    Attributes:
        ed25519: public key, 32 bytes.
        ml_dsa_65: public key, 1952 bytes.
        not_before: birth of the keys, whole seconds.
        not_after: end of their use, included.
        models: every model that answers, each once.
    """

    ed25519: bytes
    ml_dsa_65: bytes
    not_before: datetime
    not_after: datetime
    models: tuple[ModelRecord, ...]

    def to_bytes(self) -> bytes:
        """Return the canonical CBOR that evidence commits to."""
        return cbor_bytes(
            {
                "schema": STATEMENT_SCHEMA,
                "ed25519": self.ed25519,
                "ml-dsa-65": self.ml_dsa_65,
                "not_before": int(self.not_before.timestamp()),
                "not_after": int(self.not_after.timestamp()),
                "models": tuple(model.to_value() for model in self.models),
            }
        )

    @property
    def digest(self) -> bytes:
        """The digest for ``init_data`` of the binding, 32 bytes."""
        return statement_digest(self.to_bytes())

    def model(self, digest: bytes) -> ModelRecord | None:
        """Return the model record with this digest, or None."""
        return next((one for one in self.models if one.digest == digest), None)


def statement_digest(statement: bytes) -> bytes:
    """Return the digest of a statement, from its bytes."""
    return sha256(_STATEMENT_DOMAIN + statement).digest()


def parse_statement(data: bytes) -> ReceiptStatement:
    """Parse a statement, in canonical CBOR only.

    Raises:
        EvidenceError: ``receipt-malformed`` or ``cbor-invalid``.
    """
    if len(data) > MAX_STATEMENT_BYTES:
        raise malformed("statement", f"at most {MAX_STATEMENT_BYTES} bytes", f"{len(data)} bytes")
    members = MapReader(cbor_value(data, what="statement", most=_MAX_VALUES), "statement", _STATEMENT)
    schema = members.text("schema", MAX_LOADER_CHARACTERS)
    if schema != STATEMENT_SCHEMA:
        raise malformed("statement.schema", STATEMENT_SCHEMA, schema)
    models = tuple(
        _record(one, f"statement.models[{at}]")
        for at, one in enumerate(members.sequence("models", MAX_MODELS, least=1))
    )
    if len({model.digest for model in models}) != len(models):
        raise malformed("statement.models", "each record once", "a record twice")
    return ReceiptStatement(
        ed25519=members.octets("ed25519", range(ED25519_BYTES, ED25519_BYTES + 1)),
        ml_dsa_65=members.octets("ml-dsa-65", range(ML_DSA_65_BYTES, ML_DSA_65_BYTES + 1)),
        not_before=moment_of(members, "not_before"),
        not_after=moment_of(members, "not_after"),
        models=models,
    )


def _part_value(part: LoadedModel, release: bytes | None) -> CborValue:
    files: tuple[CborValue, ...] = tuple(
        {"path": one.path, "header": one.header, "decrypted": one.decrypted} for one in part.files
    )
    return {"manifest": part.manifest, "model": part.model, "files": files, "release": release}


def _record(value: object, path: str) -> ModelRecord:
    members = MapReader(value, path, _RECORD)
    parts = [_part(one, f"{path}.parts[{at}]") for at, one in enumerate(members.sequence("parts", MAX_PARTS, least=1))]
    return ModelRecord(
        parts=tuple(part for part, _ in parts),
        releases=tuple(release for _, release in parts),
        quantisation=members.text_or_none("quantisation", MAX_LOADER_CHARACTERS),
        loader=members.text("loader", MAX_LOADER_CHARACTERS),
    )


def _part(value: object, path: str) -> tuple[LoadedModel, bytes | None]:
    members = MapReader(value, path, _PART)
    files = tuple(
        _file(one, f"{path}.files[{at}]") for at, one in enumerate(members.sequence("files", MAX_PART_FILES, least=1))
    )
    names = [one.path for one in files]
    if names != sorted(names) or names_problem(names) is not None:
        raise malformed(f"{path}.files", "safe relative paths in their order, each once", "others")
    part = LoadedModel(
        manifest=members.octets("manifest"),
        model=members.octets("model", range(MODEL_ID_BYTES, MODEL_ID_BYTES + 1)),
        files=files,
    )
    return part, members.octets_or_none("release")


def _file(value: object, path: str) -> LoadedFile:
    members = MapReader(value, path, _FILE)
    return LoadedFile(
        path=members.text("path", 4096),
        header=members.octets("header", range(HEADER_BYTES, HEADER_BYTES + 1)),
        decrypted=members.unsigned("decrypted", MAX_SEGMENTS),
    )
