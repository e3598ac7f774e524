"""Changes that a viewer makes to the running demonstration: a letter and Enter each, without a file to edit."""

from __future__ import annotations

import os
import select
import sys
from dataclasses import dataclass, field
from typing import Final

from rag_demo.demo.narrator import Narrator
from rag_demo.demo.parties import Stage

MENU: Final = (
    ("f", "the operator puts older firmware on the machine"),
    ("g", "the operator exchanges the GPU"),
    ("k", "the documents' owner takes the key back"),
    ("b", "back to how it was"),
)
_READ_BYTES: Final = 1024


def viewer() -> int | None:
    """Return the descriptor of the terminal or pipe from which commands come; None if there is none."""
    return None if sys.stdin is None or sys.stdin.closed else sys.stdin.fileno()


def _is_ours(source: int) -> bool:
    """Return False for a terminal while this runs in its background: reading it then would stop this process."""
    return not os.isatty(source) or os.tcgetpgrp(source) == os.getpgrp()


@dataclass(slots=True, kw_only=True)
class Changes:
    """The changes that are in force.

    Attributes:
        source: descriptor of the viewer's commands; None once it has ended.
        taken: the documents' owner took the key back.
    """

    out: Narrator
    stage: Stage
    source: int | None
    taken: bool = False
    _begun: bytes = field(default=b"", init=False)

    def show_menu(self) -> None:
        """Show what can be done."""
        self.out.title(
            "Turn it red, here: a letter and Enter", proves="page and client turn red, and nothing more is sent"
        )
        for letter, text in MENU:
            self.out.tell(f"{letter}   {text}")

    def wait(self, seconds: float) -> None:
        """Wait so long for commands, and carry them out."""
        sources = [self.source] if self.source is not None and _is_ours(self.source) else []
        for source in select.select(sources, [], [], seconds)[0]:
            read = os.read(source, _READ_BYTES)
            if not read:
                self.source = None
            *lines, self._begun = (self._begun + read).split(b"\n")
            self._begun = self._begun[-_READ_BYTES:]
            for line in lines:
                self.carry_out(line.decode(errors="replace").strip().lower())

    def carry_out(self, letter: str) -> None:
        """Make the change of a letter, and report it."""
        match letter:
            case "f" | "g":
                self.stage.change_machine({"f": "older-firmware", "g": "other-gpu"}[letter])
                self.out.tell("the machine has changed: page and client refuse it at the next look, and send nothing")
            case "k" if not self.taken:
                self.stage.set_key(enabled=False)
                self.taken = True
                self.out.tell(f"the key is disabled: the service stops within {self.stage.options.lease_seconds} s")
            case "b":
                self.stage.change_machine(None)
                if self.taken:
                    self.stage.set_key(enabled=True)
                self.taken = False
                self.out.tell("everything is as it was: the service gets its keys again, and page and client affirm it")
            case "k" | "":
                return
            case _:
                self.out.tell(f"{letter[:20]!r} is no command: f, g, k or b")
