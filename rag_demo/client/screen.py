"""The terminal view: the machine's standing as sign, word and colour, with foreign text made harmless.

All text of a service, a document or an error passes ``visible`` before it reaches the terminal.
"""

from __future__ import annotations

import os
import shutil
import textwrap
import threading
from collections.abc import Iterator, Mapping
from typing import Final, TextIO

from attest.checks import Check, Outcome
from attest.encoding import JsonValue, rfc3339_text
from attest.errors import AttestError
from attest.terminal import CLEARED_LINE, ReaderGoneError, bar, visible
from rag_demo.client.answers import Answer, Document, UploadProgress
from rag_demo.client.trust import TrustStatus
from rag_demo.client.uploads import Sent

_COLOURS: Final = {"good": "\x1b[32m", "bad": "\x1b[1;31m", "odd": "\x1b[33m", "dim": "\x1b[2m", "": ""}
_RESET: Final = "\x1b[0m"
_WIDTH: Final = 100
_LIST: Final = 40
_OUTCOMES: Final = {
    Outcome.PASS: ("✓ pass", "+ pass", "good"),
    Outcome.FAIL: ("✗ fail", "x fail", "bad"),
    Outcome.NOT_EVALUATED: ("– not evaluated", "- not evaluated", "odd"),
}


def word_of(standing: TrustStatus) -> tuple[str, str, str, str]:
    """Return sign, ASCII sign, word and colour of a standing. An unknown standing never looks like success."""
    if standing.affirmed:
        word = "AFFIRMED, SIMULATED" if standing.simulated else "AFFIRMED"
        return ("✓", "+", word, "odd" if standing.simulated else "good")
    if standing.error is not None:
        return ("✗", "x", "NOT AFFIRMED", "bad")
    return ("?", "?", "NOT CHECKED", "odd")


def status_of(standing: TrustStatus) -> Iterator[tuple[str, str]]:
    """Yield what is known of the machine, as names and values."""
    if standing.checked is not None:
        yield "asked", rfc3339_text(standing.checked.replace(microsecond=0))
    if standing.error is not None:
        yield "why", f"{standing.error.message} ({standing.error.code})"
        if standing.error.hint:
            yield "hint", standing.error.hint
    if standing.result is not None:
        policy = standing.result.policy
        yield "policy", f"{policy.name}, version {policy.version}, digest {policy.digest.hex()}"
        passed = sum(check.outcome is Outcome.PASS for check in standing.result.checks)
        left = sum(check.outcome is Outcome.NOT_EVALUATED for check in standing.result.checks)
        counted = f"{passed} of {len(standing.result.checks)} passed"
        yield "checks", f"{counted}, {left} not evaluated" if left else counted
        for one in standing.result.unchecked:
            yield "unchecked", f"{one.check}: {one.reason}"
        if standing.simulated:
            yield "simulated", "this machine is simulated; nothing here is proven about hardware"
    if standing.sent_to is not None:
        yield "key", f"{standing.sent_to.key_id}, document {standing.sent_to.digest.hex()}"
    if standing.expires is not None:
        yield "proved until", rfc3339_text(standing.expires.replace(microsecond=0))


def facts_of(claims: Mapping[str, JsonValue], *, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every claim, nested ones by their path."""
    for name, value in claims.items():
        if isinstance(value, dict):
            yield from facts_of(value, prefix=f"{prefix}{name}.")
        elif isinstance(value, list):
            shown = ", ".join(str(one) for one in value[:_LIST])
            yield f"{prefix}{name}", shown + (f" … and {len(value) - _LIST} more" if len(value) > _LIST else "")
        else:
            yield f"{prefix}{name}", str(value)


class Screen:
    """Writer to a terminal, or to a file without colours. Safe to use from several threads.

    Args:
        colour: false for no colours; there are none without a terminal.
    """

    def __init__(self, out: TextIO, *, colour: bool = True) -> None:
        plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self.out = out
        self.colour = colour and self.terminal and not plain
        self._lock = threading.RLock()
        self._bar_shown = False

    @property
    def terminal(self) -> bool:
        """True if the output is a terminal."""
        return self.out.isatty()

    @property
    def pretty(self) -> bool:
        """True if the output encoding has more than ASCII."""
        return (self.out.encoding or "ascii").lower().replace("-", "").startswith("utf")

    # -- lines

    def line(self, text: str = "", style: str = "") -> None:
        """Write one line, without control characters."""
        with self._lock:
            self._clear_bar()
            self._write(self._painted(self._printable(visible(text)), style) + "\n")

    def text(self, text: str) -> None:
        """Write text of several paragraphs, wrapped."""
        width = min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns) if self.terminal else 10_000
        for part in text.splitlines():
            for one in textwrap.wrap(visible(part), max(20, width), break_on_hyphens=False) or [""]:
                self.line(one)

    def facts(self, rows: Iterator[tuple[str, str]]) -> None:
        """Write names and values."""
        found = list(rows)
        width = max((len(name) for name, _ in found), default=0)
        for name, value in found:
            self.line(f"  {name:<{width}}  {value}")

    def piece(self, text: str) -> None:
        """Write a piece of a text in progress; it may contain line breaks, but no other control characters."""
        with self._lock:
            self._clear_bar()
            self._write("\n".join(self._printable(visible(part)) for part in text.split("\n")))

    # -- the machine

    def sign(self, standing: TrustStatus) -> str:
        """Return the standing in one coloured phrase."""
        pretty, plain, word, colour = word_of(standing)
        return self._painted(f"{pretty if self.pretty else plain} {word}", colour)

    def prompt(self, text: str) -> None:
        """Write what ``sign`` made, without the end of a line."""
        with self._lock:
            self._write(text)

    def headline(self, standing: TrustStatus) -> None:
        """Write the standing in one line."""
        with self._lock:
            self._clear_bar()
            self._write(self.sign(standing) + "\n")

    def standing(self, standing: TrustStatus) -> None:
        """Write the standing with what is known."""
        self.headline(standing)
        self.facts(status_of(standing))

    def check(self, check: Check) -> None:
        """Write one check with what it demands and what it found."""
        pretty, plain, style = _OUTCOMES.get(check.outcome, ("?", "?", "bad"))
        where = f" [{check.item}]" if check.item else ""
        self.line(f"  {pretty if self.pretty else plain}  {check.id}{where}", style)
        if check.outcome is not Outcome.PASS:
            self.line(f"      expected {check.expected}; got {check.got}")

    def error(self, error: AttestError) -> None:
        """Write a refusal with what to do about it."""
        self.line(f"error: {error.message} ({error.code})", "bad")
        if error.hint:
            self.line(f"hint: {error.hint}")

    # -- documents and answers

    def documents(self, documents: tuple[Document, ...]) -> None:
        """Write a list of documents with the numbers by which they are deleted."""
        if not documents:
            self.line("no documents yet: /upload FILE")
        for number, one in enumerate(documents, start=1):
            self.line(
                f"  {number}. {one.name}  ({one.pages} pages, {one.passages} passages, {one.size} bytes)  {one.id}"
            )

    def answer(self, answer: Answer) -> None:
        """Write an answer with its sources."""
        if not answer.known:
            self.line("Found nothing near enough to the question in your documents.", "odd")
            return
        self.text(answer.text)
        self.sources(answer)

    def sources(self, answer: Answer) -> None:
        """Write the sources of an answer, and its kind."""
        for one in answer.citations:
            self.line(f"  [{one.number}] {one.name} p. {one.page}", "dim")
        kind = "sentences of your documents" if answer.kind == "passages" else "written by a language model"
        self.line(f"  ({kind})", "dim")

    def progress(self, step: Sent | UploadProgress) -> None:
        """Show the progress of an upload: a bar on a terminal, nothing elsewhere."""
        if not self.terminal:
            return
        if isinstance(step, Sent):
            done, text = step.sent / max(step.of, 1), f"sealed and sent {step.sent} of {step.of} bytes"
        elif step.of_passages:
            # A bar of its own: embedding takes most of the time, long after the pages were read.
            done = step.passages / step.of_passages
            text = f"read {step.pages} pages, embedded {step.passages} of {step.of_passages} passages"
        else:
            done = step.pages / step.of if step.of else 0.0
            of = f" of {step.of}" if step.of else ""
            text = f"read {step.pages}{of} pages, {step.passages} passages"
        with self._lock:
            self._write(bar(done, text))
            self._bar_shown = True

    # -- bytes

    def _printable(self, text: str) -> str:
        """Write what the terminal's encoding lacks as escapes."""
        encoding = self.out.encoding or "ascii"
        return text.encode(encoding, "backslashreplace").decode(encoding)

    def _painted(self, text: str, style: str) -> str:
        return f"{_COLOURS[style]}{text}{_RESET}" if self.colour and style else text

    def _clear_bar(self) -> None:
        if self._bar_shown:
            self._bar_shown = False
            self._write(CLEARED_LINE)

    def _write(self, text: str) -> None:
        try:
            self.out.write(text)
            self.out.flush()
        except BrokenPipeError as exc:  # click would exit with 1, which here means a refusal
            raise ReaderGoneError from exc
