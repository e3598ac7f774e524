"""A model of a few kilobytes that is all that the real one is, and what BERT makes of it, one number at a time."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from attest.sealed.sources import Readable

Document = dict[str, Any]  # Any: JSON that a test is about to spoil

WORDS: Final = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "##b", "c", "d", ",")
CONFIG: Final[Document] = {
    "architectures": ["BertModel"],
    "hidden_act": "gelu",
    "hidden_size": 8,
    "intermediate_size": 12,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 9,
    "model_type": "bert",
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": len(WORDS),
}
POOLING: Final[Document] = {
    "word_embedding_dimension": 8,
    "pooling_mode_cls_token": False,
    "pooling_mode_mean_tokens": True,
    "pooling_mode_max_tokens": False,
}
MODULES: Final[list[Document]] = [
    {"idx": 0, "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "type": "sentence_transformers.models.Normalize"},
]
LENGTH: Final[Document] = {"max_seq_length": 7, "do_lower_case": False}
TOKENIZER: Final[Document] = {
    "version": "1.0",
    "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0},
    "padding": {"strategy": {"Fixed": 5}, "pad_id": 0},
    "added_tokens": [{"id": at, "special": True, "content": word} for at, word in enumerate(WORDS[:4])],
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
        ],
        "pair": [],
        "special_tokens": {
            "[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
            "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]},
        },
    },
    "decoder": None,
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 5,
        "vocab": {word: at for at, word in enumerate(WORDS)},
    },
}
Arrays = dict[str, NDArray[Any]]  # Any: also of kinds that are refused


def shapes() -> dict[str, tuple[int, ...]]:
    """Return the tensors of the model, written out and not taken from what is tested."""
    found: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (10, 8),
        "embeddings.position_embeddings.weight": (9, 8),
        "embeddings.token_type_embeddings.weight": (2, 8),
        "embeddings.LayerNorm.weight": (8,),
        "embeddings.LayerNorm.bias": (8,),
    }
    for at in (0, 1):
        layer = f"encoder.layer.{at}."
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            found |= {f"{layer}{name}.weight": (8, 8), f"{layer}{name}.bias": (8,)}
        found |= {f"{layer}intermediate.dense.weight": (12, 8), f"{layer}intermediate.dense.bias": (12,)}
        found |= {f"{layer}output.dense.weight": (8, 12), f"{layer}output.dense.bias": (8,)}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            found |= {f"{layer}{name}.weight": (8,), f"{layer}{name}.bias": (8,)}
    return found


def arrays() -> Arrays:
    random = np.random.default_rng(9)
    return {name: random.standard_normal(shape, dtype=np.float32) for name, shape in shapes().items()}


class _Bytes:
    def __init__(self, name: str, content: bytes) -> None:
        self.name = name
        self.size = len(content)
        self._content = content

    def read_into(self, offset: int, buffer: memoryview, /) -> None:
        buffer[:] = self._content[offset : offset + len(buffer)]

    def close(self) -> None:
        pass


class SmallModel:
    """The model's files, in memory, each spoiled as a test wants it."""

    name = "small"

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.entries = files

    def open(self, path: str, /) -> Readable:
        return _Bytes(path, self.entries[path])


DOCUMENTS: Final[Mapping[str, object]] = {
    "config.json": CONFIG,
    "1_Pooling/config.json": POOLING,
    "modules.json": MODULES,
    "sentence_bert_config.json": LENGTH,
    "tokenizer.json": TOKENIZER,
}


def raw(document: object) -> bytes:
    return json.dumps(document).encode()


def small_model(
    spoil: Callable[[Any], object] | None = None, *, of: str = "config.json", tensors: Arrays | None = None
) -> SmallModel:
    """Return the model, with one of its documents changed.

    Args:
        spoil: changes a copy of the document, or returns bytes or another one instead.
        of: which document.
        tensors: instead of its own.
    """
    documents: dict[str, Any] = {name: copy.deepcopy(one) for name, one in DOCUMENTS.items()}
    if spoil is not None:
        instead = spoil(documents[of])
        documents[of] = documents[of] if instead is None else instead
    files = {name: one if isinstance(one, bytes) else raw(one) for name, one in documents.items()}
    return SmallModel({**files, "model.safetensors": save(arrays() if tensors is None else tensors)})


Row = list[float]


def reference(numbers: Sequence[int]) -> Row:
    """Return the vector of a text, by the definitions, in double precision and without a product of matrices."""
    weights = {name: array.astype(float).tolist() for name, array in arrays().items()}
    rows = [
        [
            weights["embeddings.word_embeddings.weight"][number][at]
            + weights["embeddings.position_embeddings.weight"][place][at]
            + weights["embeddings.token_type_embeddings.weight"][0][at]
            for at in range(8)
        ]
        for place, number in enumerate(numbers)
    ]
    rows = [_norm(row, weights, "embeddings.LayerNorm") for row in rows]
    for at in (0, 1):
        rows = _layer(rows, weights, f"encoder.layer.{at}.")
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    length = math.sqrt(sum(one * one for one in mean))
    return [one / length for one in mean]


def _layer(rows: list[Row], weights: Mapping[str, Any], layer: str) -> list[Row]:
    queries, keys, values = (
        [_linear(row, weights, f"{layer}attention.self.{name}") for row in rows] for name in ("query", "key", "value")
    )
    out = []
    for row, query in zip(rows, queries, strict=True):
        taken: Row = []
        for head in (range(4), range(4, 8)):
            shares = [math.exp(sum(query[at] * key[at] for at in head) / math.sqrt(4)) for key in keys]
            taken += [
                sum(share * value[at] for share, value in zip(shares, values, strict=True)) / sum(shares) for at in head
            ]
        mixed = _sum(_linear(taken, weights, f"{layer}attention.output.dense"), row)
        mixed = _norm(mixed, weights, f"{layer}attention.output.LayerNorm")
        between = _linear(mixed, weights, f"{layer}intermediate.dense")
        active = [one * (1 + math.erf(one / math.sqrt(2))) / 2 for one in between]
        last = _sum(_linear(active, weights, f"{layer}output.dense"), mixed)
        out.append(_norm(last, weights, f"{layer}output.LayerNorm"))
    return out


def _linear(row: Row, weights: Mapping[str, Any], name: str) -> Row:
    pairs = zip(weights[f"{name}.weight"], weights[f"{name}.bias"], strict=True)
    return [sum(one * factor for one, factor in zip(row, factors, strict=True)) + bias for factors, bias in pairs]


def _norm(row: Row, weights: Mapping[str, Any], name: str) -> Row:
    mean = sum(row) / len(row)
    deviation = math.sqrt(sum((one - mean) ** 2 for one in row) / len(row) + CONFIG["layer_norm_eps"])
    factors, biases = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return [(one - mean) / deviation * f + b for one, f, b in zip(row, factors, biases, strict=True)]


def _sum(first: Row, second: Row) -> Row:
    return [one + other for one, other in zip(first, second, strict=True)]
