"""The document that its owner uploads, and the questions about it. Both are fictional."""

from __future__ import annotations

from typing import Final

DOCUMENT_NAME: Final = "lighthouse-handbook.md"
DOCUMENT_TEXT: Final = """\
# Handbook of the lighthouse at Quarrel Point

The lamp room is reached by one hundred and seventeen steps, of which the ninth is loose.

## The lamp

The spare lamp is kept behind the brass barometer in the lower store. It is wrapped in green felt and must be warmed
for twenty minutes before it is lit. A lamp that flickers twice in one night is replaced in the morning.

## Fog

When the mainland cannot be seen, the horn sounds four times in a minute until it can. The key of the horn house hangs
under the third window of the kitchen. Nobody sounds the horn on the first Sunday of May, when the regatta is on.

## Guests

Guests sleep in the west room and bring their own blankets. The keeper's parrot is called Admiral Pomfret, and it bites
whoever whistles near it.
"""
SENTENCES: Final = (
    "of which the ninth is loose",
    "The spare lamp is kept behind the brass barometer",
    "wrapped in green felt and must be warmed",
    "flickers twice in one night is replaced",
    "the horn sounds four times in a minute",
    "The key of the horn house hangs",
    "under the third window of the kitchen",
    "when the regatta is on",
    "Guests sleep in the west room",
    "The keeper's parrot is called Admiral Pomfret",
)
"""Parts of lines, since a copy may break lines elsewhere."""
QUESTION: Final = "Where is the spare lamp kept?"
ANSWER_HAS: Final = "behind the brass barometer"
UNRELATED_QUESTION: Final = "What is the boiling point of tungsten hexafluoride?"
