"""The messages of the channel, in their own types: closed, frozen, and apart from the types inside the service."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from rag_demo.enclave.interfaces import IndexedDocument


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DocumentModel(_Closed):
    """A stored document."""

    id: str
    name: str
    media_type: str
    size: int
    pages: int
    passages: int
    added: datetime
    language: str

    @staticmethod
    def of(document: IndexedDocument) -> DocumentModel:
        """Show a document."""
        return DocumentModel(**asdict(document))


class DocumentsModel(_Closed):
    """All documents of a user, oldest first."""

    schema_: Literal["rag.documents/1"] = Field(default="rag.documents/1", serialization_alias="schema")
    documents: tuple[DocumentModel, ...]


class QuestionModel(_Closed):
    """A question. The service bounds its length, and refuses an empty one."""

    question: str


class ProgressEvent(_Closed):
    """Progress of a document: pages read, then passages embedded. An unknown total is null."""

    pages: int
    of: int | None
    passages: int
    of_passages: int | None


class StoredEvent(_Closed):
    """A document that is stored as a whole."""

    document: DocumentModel


class PassageEvent(_Closed):
    """A passage that answers, and stretches of it that do, verbatim."""

    number: int
    document: str
    name: str
    page: int | None
    section: str
    score: float
    text: str
    sentences: tuple[str, ...]


class TextEvent(_Closed):
    """A piece of an answer that a language model is writing."""

    delta: str
    kind: Literal["written"]


class WriterModel(_Closed):
    """A language model: where it runs, and how its weights are known, in words."""

    name: str
    where: str
    weights: str


class CitationModel(_Closed):
    """The passage that a ``[n]`` of an answer cites; without a page where its document has none."""

    number: int
    document: str
    name: str
    page: int | None
    section: str


class AnswerEvent(_Closed):
    """A whole answer. ``quoted``: text of the documents; ``written``: the words of the language model ``model``."""

    known: bool
    kind: Literal["quoted", "written"]
    model: WriterModel | None
    text: str
    citations: tuple[CitationModel, ...]


class WhyModel(_Closed):
    """Why the service is not ready."""

    code: str
    detail: str
    failed_checks: tuple[str, ...]


class ModelModel(_Closed):
    """The embedding model, with the languages that it knows well; empty for many."""

    name: str
    dimensions: int
    languages: tuple[str, ...]


class LeaseModel(_Closed):
    """A lease, and when it ends if it is not renewed."""

    key: str
    until: datetime


class DocumentKindModel(_Closed):
    """A kind of document that the service reads, and the endings of its files' names."""

    media_type: str
    suffixes: tuple[str, ...]


class ServiceLimitsModel(_Closed):
    """The limits of the service."""

    document_bytes: int
    document_kinds: tuple[DocumentKindModel, ...]
    documents: int
    passages_per_document: int
    question_characters: int
    requests_per_minute: int


class StateModel(_Closed):
    """The state of the service. It is not secret; in the clear it is unauthenticated."""

    schema_: Literal["rag.state/1"] = Field(default="rag.state/1", serialization_alias="schema")
    name: str
    state: Literal["locked", "unlocking", "ready", "stopped"]
    why: WhyModel | None
    simulated: bool
    model: ModelModel | None
    answers: Literal["quoted", "written"]
    writer: WriterModel | None
    leases: tuple[LeaseModel, ...]
    limits: ServiceLimitsModel


class SimulatedMachineModel(_Closed):
    """Changes of a simulated machine, and the one in force."""

    changes: tuple[str, ...]
    now: str | None


def json_response(model: BaseModel) -> Response:
    """Return a model as a response that no cache keeps."""
    return Response(
        model.model_dump_json(by_alias=True),
        media_type="application/json",
        headers={"cache-control": "no-store", "x-content-type-options": "nosniff"},
    )
