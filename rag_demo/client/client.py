"""The client: it sends content only to a machine that meets its user's policy.

::

    demands = read_demands(audience="rag.example", policy=Path("policy.yaml"), at=system_clock())
    with RagClient("https://rag.example", demands=demands, token=token) as client:
        client.upload(Path("contract.pdf"), progress=print)
        with client.ask("When does the contract end?") as asking:
            for reply in asking:                    # passages, then text, then the answer
                ...
            print(asking.answer.text, asking.sent_to)

Every message names the key that it was sealed to. The client requests new evidence when a proof has ended, when the
policy file has changed, before each upload, and with ``watch`` at regular intervals.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import httpx

from attest.clock import system_clock
from attest.context_managers import ClosedOnExit
from attest.errors import ConfigurationError
from attest.session import trusting
from rag_demo.client.answers import (
    Answer,
    Document,
    Reply,
    ServiceState,
    documents_of,
    is_document_id,
    reply_of,
    state_of,
)
from rag_demo.client.demands import Demands
from rag_demo.client.errors import RagRefusedError
from rag_demo.client.events import malformed
from rag_demo.client.exchange import ClientExchange, Messenger
from rag_demo.client.token import UserToken
from rag_demo.client.trust import MachineTrust, SentTo, TrustStatus
from rag_demo.client.uploads import (
    Progress,
    document_name,
    incomplete,
    media_type_of,
    pieces_of,
    refused_by,
    size_of,
    stored_by,
)

TIMEOUT: Final = httpx.Timeout(connect=10.0, read=150.0, write=60.0, pool=10.0)
_HOST: Final = re.compile(r"(?:[a-z0-9_.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?")
_STALE: Final = "evidence-stale"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A stored document, and the key that it was sealed to."""

    document: Document
    sent_to: SentTo


class ReplyStream(ClosedOnExit):
    """The replies to one question, as they come. They are complete only at the end of the iteration.

    Attributes:
        sent_to: the key that the question was sealed to.
    """

    def __init__(self, exchange: ClientExchange) -> None:
        self.sent_to = exchange.sent_to
        self._exchange = exchange
        self._replies = _until_answered(exchange)
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer:
        """The answer; the rest of the replies is read first.

        Raises:
            AttestError: as iterating; ``rag-answer-incomplete`` also where the replies were closed before.
        """
        for _ in self:
            pass
        if self._answer is None:
            raise incomplete("an answer")
        return self._answer

    def __iter__(self) -> Iterator[Reply]:
        """Yield each reply; raise where they are cut, or are not what they should be."""
        for reply in self._replies:
            if isinstance(reply, Answer):
                self._answer = reply
            yield reply

    def close(self) -> None:
        """Stop reading: the service stops its work."""
        self._replies.close()
        self._exchange.close()


class RagClient(ClosedOnExit):
    """Client of one service for one user. Safe to use from several threads.

    Args:
        token: the user's; it selects the user's documents.
        tls_ca: authorities for its TLS certificate, where there is TLS; no security rests on it.
        transport: of the sealed messages; None is httpx's own.

    Raises:
        ConfigurationError: ``url-invalid``, ``rag-service-name-invalid``, ``tls-ca-unusable``.
    """

    def __init__(
        self,
        url: str,
        *,
        demands: Demands,
        token: UserToken,
        tls_ca: Path | None = None,
        clock: Callable[[], datetime] = system_clock,
        random: Callable[[int], bytes] = os.urandom,
        timeout: httpx.Timeout = TIMEOUT,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = checked_url(url)
        self.demands = demands
        self._trust = MachineTrust(demands.reader(), random=random)
        self._network = transport or httpx.HTTPTransport(verify=trusting(tls_ca), trust_env=False)
        self._messenger = Messenger(
            url=self.url,
            service=demands.audience,
            authority=_authority(demands.audience),
            token=token,
            trust=self._trust,
            network=self._network,
            clock=clock,
            timeout=timeout,
        )

    # -- the machine

    @property
    def standing(self) -> TrustStatus:
        """Standing of the machine by the last proof."""
        return self._trust.standing

    def check(self) -> ServiceState:
        """Verify the machine again, and return the service's state.

        Raises:
            AttestError: it does not prove itself, or does not meet the policy; ``standing`` keeps why.
        """
        with self._messenger.open("GET", "/v1/state", anew=True) as exchange:
            return state_of(exchange.whole())

    def state(self) -> ServiceState:
        """Return the service's state, through the channel; errors as ``check``."""
        with self._messenger.open("GET", "/v1/state") as exchange:
            return state_of(exchange.whole())

    # -- documents

    def upload(self, file: Path, *, name: str | None = None, progress: Progress | None = None) -> Stored:
        """Send a document, after a new proof of the machine; without a name it has that of its file.

        Raises:
            RagRefusedError: the service does not take it; see ``code``.
            ConfigurationError: ``file-unreadable``, ``rag-name-invalid``.
            AttestError: as ``check``; or the answer was cut, and whether the document is stored is not known.
        """
        name, progress = document_name(file.name if name is None else name), progress or (lambda _: None)
        content = partial(pieces_of, file, size_of(file), progress)
        try:
            return self._upload(name, content, progress)
        except RagRefusedError as exc:
            # The service no longer has the key of that proof, and saw nothing of the document: one retry.
            if exc.code != _STALE:
                raise
        return self._upload(name, content, progress)

    def documents(self) -> tuple[Document, ...]:
        """Return the user's documents, oldest first; errors as ``check``."""
        with self._messenger.open("GET", "/v1/documents") as exchange:
            return documents_of(exchange.whole())

    def delete(self, document: str) -> None:
        """Delete a document by its id.

        Raises:
            ConfigurationError: ``rag-document-invalid``: no id of a document.
            RagRefusedError: there is none of this id.
            AttestError: as ``check``.
        """
        if not is_document_id(document):
            raise ConfigurationError(
                "this is not the id of a document",
                code="rag-document-invalid",
                field="document",
                expected="32 hexadecimal digits",
                got=ascii(document)[:60],
                hint="the list of documents shows the ids",
            )
        with self._messenger.open("DELETE", f"/v1/documents/{document}") as exchange:
            exchange.whole()

    def delete_all(self) -> None:
        """Delete all of the user's documents; errors as ``check``."""
        with self._messenger.open("DELETE", "/v1/documents") as exchange:
            exchange.whole()

    # -- questions

    def ask(self, question: str) -> ReplyStream:
        """Ask a question, and return the replies as they come.

        Raises:
            RagRefusedError: the service does not answer it.
            AttestError: as ``check``.
        """
        return ReplyStream(self._messenger.open("POST", "/v1/questions", {"question": question}))

    # -- life

    def close(self) -> None:
        """Close the connections."""
        self._network.close()

    def _upload(self, name: str, content: Callable[[], Iterator[bytes]], progress: Progress) -> Stored:
        target = "/v1/documents?" + urlencode({"name": name})
        with self._messenger.open("POST", target, content, media_type=media_type_of(name), anew=True) as exchange:
            return Stored(document=stored_by(exchange.events(), progress), sent_to=exchange.sent_to)


def checked_url(url: str) -> str:
    """Return an address without its path.

    Raises:
        ConfigurationError: ``url-invalid``.
    """
    try:
        found = httpx.URL(url)
        good = found.scheme in {"http", "https"} and bool(found.host) and found.path in {"", "/"}
        good = good and not found.query and not found.userinfo and not found.fragment
    except (httpx.InvalidURL, ValueError, TypeError):
        good = False
    if not good:
        raise ConfigurationError(
            f"{ascii(url)[:120]} is not the address of a service",
            code="url-invalid",
            field="url",
            expected="http:// or https://, a host, and optionally a port",
            hint="write it as https://rag.example or http://127.0.0.1:8460, without a path",
        )
    return url.rstrip("/")


def _authority(name: str) -> str:
    """Return the authority of encrypted requests: the host that a service's name begins with."""
    host = name.partition("/")[0]
    if not _HOST.fullmatch(host):
        raise ConfigurationError(
            f"{ascii(name)[:120]} is not the name of a service",
            code="rag-service-name-invalid",
            field="service",
            expected="a host in lower case, optionally with a port or a path",
            hint="--service is the name in the service's evidence; ask its operator for it",
        )
    return host


def _until_answered(exchange: ClientExchange) -> Generator[Reply]:
    over = False
    with exchange:
        for event in exchange.events():
            if over:
                raise malformed("events behind the answer")
            if event.name == "refused":
                raise refused_by(event)
            reply = reply_of(event)
            over = isinstance(reply, Answer)
            yield reply
    if not over:
        raise incomplete("an answer")
