"""The service's answers as types, read strictly: people see them, and programs act on them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias, TypeVar

from attest.encoding import JsonValue, rfc3339
from attest.errors import AttestError
from rag_demo.client.events import Event, malformed

MAX_TEXT: Final = 256 * 1024
MAX_LIST: Final = 10_000
_ID: Final = re.compile(r"[0-9a-f]{32}")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """The service's statement about itself.

    Attributes:
        state: ``locked``, ``unlocking``, ``ready`` or ``stopped``.
        why: the reason why it is not ready, for people; empty where it is ready.
        simulated: true if it declares a simulated machine.
        answers: ``quoted``: text of the documents; ``written``: by a language model.
        languages: that the embedding model knows well, ISO 639-1; empty for many, and before the service is ready.
    """

    state: str
    why: str
    simulated: bool
    answers: str
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A stored document.

    Attributes:
        id: 32 hexadecimal digits.
        size: bytes.
        pages: number of pages with text; 0 where its format has none.
        language: ISO 639-1, as its text shows; empty where it does not.
    """

    id: str
    name: str
    media_type: str
    size: int
    pages: int
    passages: int
    added: datetime
    language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadProgress:
    """Progress of an upload.

    Attributes:
        of: total number of pages; None until it is known.
        passages: number of embedded passages, once all pages are read; this takes most of the time.
        of_passages: total number of passages; None until all pages are read.
    """

    pages: int
    of: int | None
    passages: int
    of_passages: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """The place that a ``[n]`` in an answer cites.

    Attributes:
        document: the document's id.
        page: from 1; None where the document's format has no pages.
        section: the heading above it; empty without one.
    """

    number: int
    document: str
    name: str
    page: int | None
    section: str

    @property
    def place(self) -> str:
        """The place in the document, in words; empty where there is none to name."""
        if self.page is not None:
            return f"p. {self.page}"
        return f'section "{self.section}"' if self.section else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A language model that wrote an answer: where it runs, and how its weights are known, in words of the service."""

    name: str
    where: str
    weights: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage(Citation):
    """A passage that supports an answer, with its text and the stretches of it that answer, verbatim.

    Attributes:
        score: greater is better.
    """

    score: float
    text: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerText:
    """The next piece of an answer that is being written."""

    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete answer.

    Attributes:
        known: true if the documents hold an answer.
        kind: ``quoted``: text of the documents; ``written``: by a language model.
        model: that wrote it; None for a quotation.
    """

    known: bool
    kind: Literal["quoted", "written"]
    model: Writer | None
    text: str
    citations: tuple[Citation, ...]

    @property
    def source(self) -> str:
        """The source of the answer, for people."""
        if self.model is None:
            return "quoted from your documents"
        model = self.model
        return f"written by the language model {model.name}, {model.where}; its weights: {model.weights}"


Reply: TypeAlias = Passage | AnswerText | Answer


class _Members:
    """Members of an object, read with their types."""

    def __init__(self, document: JsonValue | Mapping[str, JsonValue], what: str) -> None:
        if not isinstance(document, Mapping):
            raise malformed(f"{what}: expected an object")
        self._members = document
        self._what = what

    def text(self, name: str) -> str:
        value = self._take(name, str)
        if len(value) > MAX_TEXT:
            raise malformed(f"{self._what}.{name}: more than {MAX_TEXT} characters")
        return value

    def flag(self, name: str) -> bool:
        return self._take(name, bool)

    def count(self, name: str, *, least: int = 0) -> int:
        value = self._take(name, int)
        if isinstance(value, bool) or not least <= value < 1 << 53:
            raise malformed(f"{self._what}.{name}: expected a whole number of at least {least}")
        return value

    def number(self, name: str) -> float:
        value = self._members.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise malformed(f"{self._what}.{name}: expected a number")
        return float(value)

    def several(self, name: str) -> list[JsonValue]:
        value = self._take(name, list)
        if len(value) > MAX_LIST:
            raise malformed(f"{self._what}.{name}: more than {MAX_LIST}")
        return value

    def get(self, name: str) -> JsonValue:
        return self._members.get(name)

    def _take(self, name: str, kind: type[_T]) -> _T:
        value = self._members.get(name)
        if not isinstance(value, kind):
            raise malformed(f"{self._what}.{name}: expected {kind.__name__}, got {type(value).__name__}")
        return value


def state_of(document: JsonValue) -> ServiceState:
    """Read ``rag.state/1``.

    Raises:
        RagAnswerError: ``rag-answer-malformed``.
    """
    members = _Members(document, "state")
    if members.text("schema") != "rag.state/1":
        raise malformed("state.schema: expected rag.state/1")
    return ServiceState(
        state=members.text("state"),
        why=_why(members.get("why")),
        simulated=members.flag("simulated"),
        answers=members.text("answers"),
        languages=_languages(members.get("model")),
    )


def _languages(value: JsonValue) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(one for one in _Members(value, "state.model").several("languages") if isinstance(one, str))


def _why(value: JsonValue) -> str:
    if value is None:
        return ""
    members = _Members(value, "state.why")
    detail, code = members.text("detail"), members.text("code")
    more = [code, ", ".join(one for one in members.several("failed_checks") if isinstance(one, str))]
    more = [one for one in more if one and one not in detail]  # not repeated where the detail contains them
    return f"{detail} ({': '.join(more)})" if more else detail


def documents_of(document: JsonValue) -> tuple[Document, ...]:
    """Read a list of documents; errors as ``state_of``."""
    members = _Members(document, "documents")
    return tuple(document_of(one) for one in members.several("documents"))


def is_document_id(text: str) -> bool:
    """Return true if a text can be the id of a document."""
    return _ID.fullmatch(text) is not None


def document_of(document: JsonValue) -> Document:
    """Read a document; errors as ``state_of``."""
    members = _Members(document, "document")
    identity = members.text("id")
    if not is_document_id(identity):
        raise malformed("document.id: expected 32 hexadecimal digits")
    try:
        added = rfc3339(members.text("added"), what="document.added")
    except AttestError as exc:
        raise malformed(exc.message) from exc
    return Document(
        id=identity,
        name=members.text("name"),
        media_type=members.text("media_type"),
        size=members.count("size"),
        pages=members.count("pages"),
        passages=members.count("passages"),
        added=added,
        language=members.text("language"),
    )


def progress_of(event: Event) -> UploadProgress:
    """Read the progress of an upload; errors as ``state_of``."""
    members = _Members(event.members, "progress")
    of, of_passages = (None if members.get(name) is None else members.count(name) for name in ("of", "of_passages"))
    return UploadProgress(
        pages=members.count("pages"), of=of, passages=members.count("passages"), of_passages=of_passages
    )


def reply_of(event: Event) -> Reply:
    """Read an event of an answer; errors as ``state_of``."""
    match event.name:
        case "passage":
            return _passage(_Members(event.members, "passage"))
        case "text":
            return AnswerText(delta=_Members(event.members, "text").text("delta"))
        case "answer":
            return answer_of(event.members)
        case _:
            raise malformed(f"an event {ascii(event.name)[:40]} in an answer")


def answer_of(document: Mapping[str, JsonValue]) -> Answer:
    """Read an answer; errors as ``state_of``."""
    members = _Members(document, "answer")
    kind = members.text("kind")
    if kind not in {"quoted", "written"}:
        raise malformed("answer.kind: expected quoted or written")
    return Answer(
        known=members.flag("known"),
        kind="written" if kind == "written" else "quoted",
        model=_writer(members.get("model"), kind),
        text=members.text("text"),
        citations=tuple(_citation(_Members(one, "answer.citations")) for one in members.several("citations")),
    )


def _writer(value: JsonValue, kind: str) -> Writer | None:
    """Read the model of a written answer; a quotation has none, so that neither can pass for the other."""
    if (value is None) != (kind == "quoted"):
        raise malformed("answer.model: expected a model for a written answer, and none for a quotation")
    if value is None:
        return None
    members = _Members(value, "answer.model")
    return Writer(name=members.text("name"), where=members.text("where"), weights=members.text("weights"))


def _passage(members: _Members) -> Passage:
    return Passage(
        **asdict(_citation(members)),
        score=members.number("score"),
        text=members.text("text"),
        sentences=tuple(_sentence(one) for one in members.several("sentences")),
    )


def _citation(members: _Members) -> Citation:
    return Citation(
        number=members.count("number", least=1),
        document=members.text("document"),
        name=members.text("name"),
        page=None if members.get("page") is None else members.count("page", least=1),
        section=members.text("section"),
    )


def _sentence(value: JsonValue) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise malformed("passage.sentences: expected texts")
    return value
