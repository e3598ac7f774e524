"""Building blocks of command lines: the boundary of errors, signals, escaping of untrusted text, progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.lazy_names import lazy_names

if TYPE_CHECKING:
    from attest.terminal.boundary import ReaderGoneError, guarded
    from attest.terminal.completion import completion_command
    from attest.terminal.console import facts, plain, text_console
    from attest.terminal.display import Display, stacked
    from attest.terminal.help_sections import OUTPUT
    from attest.terminal.lazy_commands import ExampleCommand, ExampleGroup
    from attest.terminal.progress import CLEARED_LINE, bar, shown_progress
    from attest.terminal.signals import stopped_by_signals
    from attest.terminal.visible_text import visible

__all__ = [
    "CLEARED_LINE",
    "OUTPUT",
    "Display",
    "ExampleCommand",
    "ExampleGroup",
    "ReaderGoneError",
    "bar",
    "completion_command",
    "facts",
    "guarded",
    "plain",
    "shown_progress",
    "stacked",
    "stopped_by_signals",
    "text_console",
    "visible",
]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.terminal.boundary": ("ReaderGoneError", "guarded"),
        "attest.terminal.completion": ("completion_command",),
        "attest.terminal.console": ("facts", "plain", "text_console"),
        "attest.terminal.display": ("Display", "stacked"),
        "attest.terminal.help_sections": ("OUTPUT",),
        "attest.terminal.lazy_commands": ("ExampleCommand", "ExampleGroup"),
        "attest.terminal.progress": ("CLEARED_LINE", "bar", "shown_progress"),
        "attest.terminal.signals": ("stopped_by_signals",),
        "attest.terminal.visible_text": ("visible",),
    },
)
