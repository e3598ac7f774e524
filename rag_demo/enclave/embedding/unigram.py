"""Unigram, the tokeniser of XLM-RoBERTa and of most multilingual models, from the checked parts of ``tokenizer.json``.

The marks of the model are pieces of its vocabulary. Here they get names that no text can have, so that ``</s>`` in a
text is four characters.
"""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from attest.encoding import JsonValue
from rag_demo.enclave.embedding.tokenizer_parts import marks, part_of, refuse, require, require_known, require_members
from rag_demo.enclave.embedding.tokens import TextTokens

WORD_CHARACTERS: Final = 512
"""Characters before a cut that may be divided to other pieces because of it."""
_MODEL_MEMBERS: Final = frozenset({"type", "unk_id", "vocab", "byte_fallback"})
_METASPACE_MEMBERS: Final = frozenset({"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"})
_SPACE: Final = "\u2581"
_NUL: Final = "\0"
_PROBE: Final = "a\u0308 \uff41\u6f22"
_DOUBLE_SPACE: Final = " {2,}"


def unigram(document: Mapping[str, JsonValue], *, vocabulary: int) -> TextTokens:
    """Make a tokeniser of a document whose members were checked.

    Args:
        document: of ``tokenizer.json``.
        vocabulary: number of tokens with a vector in the model; there may be fewer pieces.

    Raises:
        ConfigurationError: ``embedding-tokenizer-unsupported``.
    """
    model = document.get("model")
    if not isinstance(model, dict):
        raise refuse("model", expected="Unigram", got=model)
    require_members(model, _MODEL_MEMBERS & model.keys() | {"unk_id", "vocab"}, where="model.")
    require(model, "model.type", ("Unigram", None))
    require(model, "model.byte_fallback", (False, None))
    pieces = _pieces(model.get("vocab"), vocabulary)
    unknown = model.get("unk_id")
    if type(unknown) is not int or not 0 <= unknown < len(pieces):
        raise refuse("model.unk_id", expected="the number of a piece", got=unknown)
    numbers = {piece: number for number, (piece, _) in enumerate(pieces)}
    added = document.get("added_tokens")
    require_known(added, numbers)
    first, last = marks(document.get("post_processor"), numbers)
    tokenizer = Tokenizer(models.Unigram(_without_marks(pieces, _contents(added)), unk_id=unknown))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Replace(_NUL, ""), *_normalizers(document)])
    tokenizer.pre_tokenizer = _pre_tokenizer(document.get("pre_tokenizer"))
    _require_working(tokenizer)
    return TextTokens(
        tokenizer=tokenizer,
        first=first,
        last=last,
        between=(last, last),
        word_characters=WORD_CHARACTERS,
        multilingual=True,
    )


def _require_working(tokenizer: Tokenizer) -> None:
    """Divide a text: the library looks at a table of characters when it uses it, and panics where it is damaged."""
    try:
        tokenizer.encode(_PROBE, add_special_tokens=False)
    except BaseException as exc:
        if type(exc).__name__ != "PanicException":
            raise
        raise refuse("normalizer", expected="a table of characters", got="a damaged one") from exc


def _pieces(found: JsonValue, most: int) -> list[tuple[str, float]]:
    """Return the pieces with their scores; each is there once."""
    pieces: list[tuple[str, float]] = []
    for one in found if isinstance(found, list) else ():
        if not isinstance(one, list) or len(one) != 2:
            raise refuse("model.vocab", expected="pairs of a piece and a score", got=one)
        piece, score = one
        number = isinstance(score, int | float) and not isinstance(score, bool) and math.isfinite(score)
        if not isinstance(piece, str) or not number or _NUL in piece:
            raise refuse("model.vocab", expected="pairs of a piece and a score", got=one)
        pieces.append((piece, float(str(score))))
    if not 0 < len(pieces) <= most or len({piece for piece, _ in pieces}) != len(pieces):
        raise refuse("model.vocab", expected=f"at most {most} different pieces, as config.json says", got=len(pieces))
    return pieces


def _contents(added: JsonValue) -> set[str]:
    tokens = added if isinstance(added, list) else []
    return {str(token.get("content")) for token in tokens if isinstance(token, dict)}


def _without_marks(pieces: Sequence[tuple[str, float]], named: Collection[str]) -> list[tuple[str, float]]:
    """Rename the marks: a text has no NUL when it is divided."""
    return [(_NUL + piece if piece in named else piece, score) for piece, score in pieces]


def _normalizers(document: Mapping[str, JsonValue]) -> list[normalizers.Normalizer]:
    found = document.get("normalizer")
    if isinstance(found, dict) and found.get("type") == "Sequence":
        require_members(found, frozenset({"type", "normalizers"}), where="normalizer.")
        several = found.get("normalizers")
        return [_normalizer(one) for one in several] if isinstance(several, list) else [_normalizer(several)]
    return [_normalizer(found)]


def _normalizer(part: JsonValue) -> normalizers.Normalizer:
    kind = part.get("type") if isinstance(part, dict) else None
    if isinstance(part, dict) and kind == "NFKC":
        require_members(part, frozenset({"type"}), where="normalizer.")
        return normalizers.NFKC()
    if isinstance(part, dict) and kind == "Precompiled":
        require_members(part, frozenset({"type", "precompiled_charsmap"}), where="normalizer.")
        return _precompiled(part.get("precompiled_charsmap"))
    if isinstance(part, dict) and part.get("pattern") == {"Regex": _DOUBLE_SPACE}:
        require_members(part, frozenset({"type", "pattern", "content"}), where="normalizer.")
        require(part, "normalizer.type", ("Replace",))
        require(part, "normalizer.content", (" ", _SPACE))
        return normalizers.Replace(Regex(_DOUBLE_SPACE), str(part.get("content")))
    raise refuse("normalizer", expected="Precompiled or NFKC", got=kind)


def _precompiled(found: JsonValue) -> normalizers.Normalizer:
    try:
        return normalizers.Precompiled(b64decode(found if isinstance(found, str) else "", validate=True))
    except Exception as exc:  # the library raises no other class for a table that it cannot read
        what = "normalizer.precompiled_charsmap"
        raise refuse(what, expected="a table of characters", got=type(exc).__name__) from exc


def _pre_tokenizer(found: JsonValue) -> pre_tokenizers.PreTokenizer:
    """Return Metaspace, or the division at white space and then Metaspace."""
    if isinstance(found, dict) and found.get("type") == "Sequence":
        require_members(found, frozenset({"type", "pretokenizers"}), where="pre_tokenizer.")
        several = found.get("pretokenizers")
        if isinstance(several, list) and len(several) == 2 and several[0] == {"type": "WhitespaceSplit"}:
            return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), _metaspace(several[1])])
        raise refuse("pre_tokenizer", expected="WhitespaceSplit, Metaspace", got=several)
    return _metaspace(found)


def _metaspace(found: JsonValue) -> pre_tokenizers.PreTokenizer:
    members = frozenset(found) if isinstance(found, dict) else frozenset()
    part = part_of({"pre_tokenizer": found}, "pre_tokenizer", kind="Metaspace", members=_METASPACE_MEMBERS & members)
    require(part, "pre_tokenizer.replacement", (_SPACE,))
    require(part, "pre_tokenizer.str_rep", (_SPACE, None))
    require(part, "pre_tokenizer.add_prefix_space", (True, None))
    require(part, "pre_tokenizer.prepend_scheme", ("always", None))
    split = require(part, "pre_tokenizer.split", (True, False, None))
    return pre_tokenizers.Metaspace(_SPACE, prepend_scheme="always", split=split is not False)
