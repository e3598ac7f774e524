"""``attest completion``: the completion script of a shell."""

from __future__ import annotations

from attest.terminal.completion import completion_command

completion = completion_command("attest")
