"""Output of the story: short lines for people, one JSON document a line for programs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

from attest.encoding import JsonValue
from attest.terminal import ReaderGoneError, visible

SCHEMA: Final = "rag.demo/1"
_GREEN, _RED, _YELLOW, _DIM, _RESET = "\x1b[32m", "\x1b[1;31m", "\x1b[33m", "\x1b[2m", "\x1b[0m"


@dataclass(slots=True)
class Narrator:
    """Writer of the story's lines.

    Attributes:
        colour: false for no colours; there are none without a terminal.
    """

    out: TextIO
    as_json: bool = False
    colour: bool = True
    ticks: Callable[[], float] = time.monotonic
    failed: int = 0
    _began: float = 0.0
    _step: int = 0
    _title: str = ""

    def __post_init__(self) -> None:
        self._began = self.ticks()
        self.colour = self.colour and self.out.isatty() and not os.environ.get("NO_COLOR")

    def title(self, text: str, *, proves: str = "") -> None:
        """Begin a step, and write its purpose."""
        self._step += 1
        self._title = text
        if self.as_json:
            self._line("step", text, proves=proves)
            return
        self._write("")
        self._write(f"{self._step}. {text}")
        if proves:
            self._write(self._painted(f"   shows: {proves}", _DIM))

    def tell(self, text: str, **members: JsonValue) -> None:
        """Write a remark."""
        if self.as_json:
            self._line("told", text, **members)
        else:
            self._write(f"   {visible(text)}")

    def good(self, text: str, **members: JsonValue) -> None:
        """Write an expected outcome."""
        self._outcome("pass", text, **members)

    def bad(self, text: str, **members: JsonValue) -> None:
        """Write an unexpected outcome, and count it."""
        self.failed += 1
        self._outcome("fail", text, **members)

    def expect(self, text: str, *, holds: bool, got: str = "") -> None:
        """Write an outcome, expected or not, with what was found instead."""
        if holds:
            self.good(text)
        else:
            self.bad(f"{text}: NO" + (f"; got {got}" if got else ""))

    def warn(self, text: str) -> None:
        """Write a warning."""
        if self.as_json:
            self._line("warning", text)
        else:
            self._write(self._painted(f"*** {text} ***", _YELLOW))

    def end(self) -> int:
        """Write the overall outcome, and return the exit code."""
        seconds = self.ticks() - self._began
        if self.as_json:
            self._line("end", "", outcome="fail" if self.failed else "pass", failed=self.failed)
        else:
            outcome = (
                f"{self.failed} did NOT have the expected result"
                if self.failed
                else "every step had the expected result"
            )
            self._write("")
            self._write(self._painted(f"{outcome} ({seconds:.0f} s)", _RED if self.failed else _GREEN))
        return 1 if self.failed else 0

    def _outcome(self, outcome: str, text: str, **members: JsonValue) -> None:
        if self.as_json:
            self._line("check", text, outcome=outcome, **members)
            return
        unicode = (self.out.encoding or "ascii").lower().startswith("utf")
        good, bad = ("✓ ", "✗ ") if unicode else ("ok  ", "NO  ")
        passed = outcome == "pass"
        self._write(f"   {self._painted(good if passed else bad, _GREEN if passed else _RED)}{visible(text)}")

    def _line(self, kind: str, text: str, **members: JsonValue) -> None:
        document: dict[str, JsonValue] = {"schema": SCHEMA, "kind": kind, "step": self._step}
        document |= {"title": self._title, "text": text, **members, "seconds": round(self.ticks() - self._began, 2)}
        self._write(json.dumps(document))

    def _painted(self, text: str, style: str) -> str:
        return f"{style}{text}{_RESET}" if self.colour else text

    def _write(self, text: str) -> None:
        encoding = self.out.encoding or "ascii"
        try:
            self.out.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
            self.out.flush()
        except BrokenPipeError as exc:  # click would exit with 1, which here means an unexpected outcome
            raise ReaderGoneError from exc
