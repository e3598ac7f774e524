"""The conversation in the terminal: questions, commands after a slash, and the machine's standing in each prompt."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TextIO

from attest.errors import AttestError, ConfigurationError
from attest.terminal import ReaderGoneError
from rag_demo.client.answers import AnswerText, Document, ServiceState
from rag_demo.client.client import RagClient, ReplyStream
from rag_demo.client.monitor import Watch
from rag_demo.client.screen import Screen, facts_of, language_hint

_HELP: Final = (
    "a line without a slash is a question",
    "/upload FILE       seal a document and send it",
    "/documents         list your documents",
    "/delete N|ID|all   delete a document, or all of them",
    "/check             attest the machine now",
    "/policy            show your policy for the machine",
    "/evidence          show what the machine proved",
    "/why               show every check and its outcome",
    "/quit              end",
)
_MAX_LINE: Final = 100_000


class Chat:
    """A conversation."""

    def __init__(self, client: RagClient, screen: Screen, lines: TextIO, *, watch_seconds: float) -> None:
        self._client = client
        self._screen = screen
        self._lines = lines
        self._watch_seconds = watch_seconds
        self._listed: tuple[Document, ...] = ()
        self._shown = ""
        self._languages: tuple[str, ...] = ()
        self._commands: dict[str, Callable[[], object]] = {
            "check": self._check,
            "documents": self._documents,
            "evidence": self._evidence,
            "help": self._help,
            "policy": self._policy,
            "why": self._why,
        }
        self._commands_with_argument = {"delete": self._delete, "upload": self._upload}

    def run(self) -> None:
        """Run the conversation until the user ends it."""
        self._attempt(self._obey, "/check")
        self._screen.line("ask, or /help")
        with Watch(self._client, seconds=self._watch_seconds, heard=self._heard):
            while (line := self._read()) is not None and line not in {"/quit", "/exit", "/q"}:
                if line:
                    self._attempt(self._obey if line.startswith("/") else self._ask, line)

    # -- lines

    def _read(self) -> str | None:
        """Return the next line, or None at the end. The prompt shows the machine's standing."""
        self._shown = self._state()
        if self._lines.isatty() and self._screen.terminal:
            with suppress(EOFError):
                return input(self._prompt()).strip()
            self._screen.line()  # the shell's prompt begins on a line of its own after Ctrl-D
            return None
        self._screen.line(self._prompt().strip())
        line = self._lines.readline(_MAX_LINE)
        return line.strip() if line else None

    def _prompt(self) -> str:
        return f"{self._screen.sign(self._client.standing)} > "

    def _attempt(self, act: Callable[[str], object], line: str) -> None:
        try:
            act(line)
        except AttestError as exc:
            self._screen.error(exc)
        except KeyboardInterrupt:
            self._screen.line("stopped", "odd")

    def _obey(self, line: str) -> None:
        word, _, rest = line[1:].partition(" ")
        if word in self._commands:
            self._commands[word]()
        elif word in self._commands_with_argument:
            self._commands_with_argument[word](rest.strip())
        else:
            self._screen.line(f"there is no command /{word}: /help lists them", "odd")

    def _heard(self, found: ServiceState | AttestError) -> None:
        """Report at once when the machine's standing changes."""
        del found
        state = self._state()
        if state != self._shown:
            self._shown = state
            with suppress(ReaderGoneError):  # the conversation itself ends with it
                self._screen.line()
                self._screen.standing(self._client.standing)
                if self._lines.isatty():
                    self._screen.prompt(self._prompt())

    def _state(self) -> str:
        standing = self._client.standing
        return f"{standing.affirmed} {standing.error.code if standing.error else ''}"

    # -- questions

    def _ask(self, question: str) -> None:
        with self._client.ask(question) as asking:
            self._show(asking)

    def _show(self, asking: ReplyStream) -> None:
        written = False
        for reply in asking:
            if isinstance(reply, AnswerText):
                if not written:
                    self._screen.line("a language model writes:", "odd")
                written = True
                self._screen.piece(reply.delta)
        if written:
            self._screen.line()
        if written and asking.answer.known:
            self._screen.sources(asking.answer)
        else:
            self._screen.answer(asking.answer)
        self._screen.line(f"  (sealed to {asking.sent_to})", "dim")

    # -- commands

    def _help(self) -> None:
        for one in _HELP:
            self._screen.line(f"  {one}")

    def _check(self) -> None:
        try:
            state = self._client.check()
        finally:
            self._screen.standing(self._client.standing)
        self._languages = state.languages
        self._screen.line(f"  the service is {state.state}" + (f": {state.why}" if state.why else ""))

    def _upload(self, rest: str) -> None:
        try:
            words = shlex.split(rest)
        except ValueError as exc:
            raise _usage(f"/upload FILE: {exc}") from exc
        if len(words) != 1:
            raise _usage("/upload FILE: expected one file, in quotes if its name has blanks")
        stored = self._client.upload(Path(words[0]).expanduser(), progress=self._screen.progress)
        document = stored.document
        pages = f"{document.pages} pages, " if document.pages else ""
        self._screen.line(f"stored {document.name}: {pages}{document.passages} passages (sealed to {stored.sent_to})")
        if hint := language_hint(document, self._languages):
            self._screen.line(f"  {hint}", "odd")

    def _documents(self) -> None:
        self._listed = self._client.documents()
        self._screen.documents(self._listed)

    def _delete(self, rest: str) -> None:
        if rest == "all":
            self._client.delete_all()
            self._screen.line("deleted all of your documents")
            return
        document = rest
        if rest.isascii() and rest.isdigit() and len(rest) < 6:
            number = int(rest)
            if not 0 < number <= len(self._listed):
                raise _usage(f"/delete {number}: /documents lists the numbers")
            document = self._listed[number - 1].id
        if not document:
            raise _usage("/delete N|ID|all: expected one of them")
        self._client.delete(document)
        self._screen.line("deleted")

    def _policy(self) -> None:
        policy = self._client.demands.reader()().policy
        source = self._client.demands.policy
        if isinstance(source, Path):
            self._screen.line(f"  file    {source}")
        self._screen.line(f"  name    {policy.name}, version {policy.version}")
        self._screen.line(f"  digest  {policy.digest.hex()}")
        if policy.simulated is not None:
            self._screen.line(f"  accepts simulated machines: {policy.simulated}", "odd")
        for kind, rules in policy.rules.items():
            for rule in rules:
                self._screen.line(f"  {kind}: {rule.id}")

    def _evidence(self) -> None:
        standing = self._client.standing
        self._screen.standing(standing)
        if standing.result is None:
            return
        for item in standing.result.verified.items:
            self._screen.line(f"{item.name}: {item.kind}")
            self._screen.facts(facts_of(item.claims))

    def _why(self) -> None:
        standing = self._client.standing
        self._screen.standing(standing)
        checks = standing.result.checks if standing.result is not None else ()
        if standing.error is not None:
            checks = standing.error.checks
        for check in checks:
            self._screen.check(check)


def _usage(problem: str) -> ConfigurationError:
    return ConfigurationError(problem, code="rag-command-invalid")
