"""The exact bytes of the members of a JSON object, for hashes and signatures over parts of a document."""

from __future__ import annotations

import json
import re

_DECODER = json.JSONDecoder()
_BLANKS = re.compile(r"[ \t\r\n]*")


def raw_members(document: bytes) -> dict[str, slice]:
    """Return the place of the value of each member of a JSON object, without the white space around it.

    Args:
        document: an object that ``json_value`` has read, so it is UTF-8, is one strict JSON document and has each
            member once.

    Returns:
        Name to the characters of its value in the decoded text.
    """
    text = document.decode("utf-8")
    places: dict[str, slice] = {}
    position = _after_blanks(text, 0) + 1  # behind the brace
    while text[(position := _after_blanks(text, position))] != "}":
        name, end = _DECODER.raw_decode(text, position)
        start = _after_blanks(text, _after_blanks(text, end) + 1)  # behind the colon
        _, end = _DECODER.raw_decode(text, start)
        places[name] = slice(start, end)
        position = _after_blanks(text, end)
        position += text[position] == ","
    return places


def _after_blanks(text: str, position: int) -> int:
    return next(_BLANKS.finditer(text, position)).end()  # which matches everywhere, if need be nothing
