"""Models of a few kilobytes in the forms of multilingual ones: XLM-RoBERTa, Unigram, ONNX; and rerankers."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save

from tests.rag_demo.embedding.small import CONFIG, LENGTH, MODULES, POOLING, Arrays, Document, SmallModel, arrays, raw

PIECES: Final = ("<s>", "<pad>", "</s>", "<unk>", "\u2581a", "\u2581b", "\u2581", "c", "\u00fc", "</")
CHARSMAP: Final = base64.b64encode(struct.pack("<I", 1024) + bytes(1024)).decode()
"""A table of characters that changes none."""
XLM: Final[Document] = {
    **CONFIG,
    "architectures": ["XLMRobertaModel"],
    "model_type": "xlm-roberta",
    "max_position_embeddings": 11,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "layer_norm_eps": 1e-12,
    "output_past": True,
}
TOKENIZER: Final[Document] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [{"id": at, "special": True, "content": piece} for at, piece in enumerate(PIECES[:4])],
    "normalizer": {"type": "NFKC"},
    "pre_tokenizer": {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True},
        ],
    },
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "</s>", "type_id": 0}},
        ],
        "pair": [],
        "special_tokens": {
            "<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]},
            "</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]},
        },
    },
    "decoder": None,
    "model": {
        "type": "Unigram",
        "unk_id": 3,
        "byte_fallback": False,
        "vocab": [[piece, -1.0 - at / 10] for at, piece in enumerate(PIECES)],
    },
}


def xlm_arrays(prefix: str = "") -> Arrays:
    """Return the tensors of the small model, moved to the positions that such a model counts from."""
    found = arrays()
    positions = found["embeddings.position_embeddings.weight"]
    found["embeddings.position_embeddings.weight"] = np.concatenate([np.full((2, 8), 99, np.float32), positions])
    found["embeddings.token_type_embeddings.weight"] = found["embeddings.token_type_embeddings.weight"][:1].copy()
    return {prefix + name: array for name, array in found.items()}


def xlm_model(*, weights: Mapping[str, bytes] | None = None, **documents: object) -> SmallModel:
    """Return the model; documents are named by what comes before their first dot."""
    files = {
        "config.json": documents.get("config", XLM),
        "1_Pooling/config.json": documents.get("pooling", POOLING),
        "modules.json": documents.get("modules", MODULES[:2]),
        "sentence_bert_config.json": LENGTH,
        "tokenizer.json": documents.get("tokenizer", TOKENIZER),
    }
    return SmallModel(
        {name: raw(one) for name, one in files.items()} | dict(weights or {"model.safetensors": save(xlm_arrays())})
    )


def table() -> np.ndarray:
    return np.random.default_rng(4).standard_normal((len(PIECES), 8), dtype=np.float32)


def onnx_encoder() -> bytes:
    """Make a model whose states are a row of a table for each token."""
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])]
    return _onnx(nodes, {"table": table()}, output=("last_hidden_state", ["batch", "length", 8]))


def onnx_classifier() -> bytes:
    """Make a model whose number is that of the tokens of the second text that are not masked."""
    nodes = [
        helper.make_node("Mul", ["attention_mask", "token_type_ids"], ["counted"]),
        helper.make_node("Cast", ["counted"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["numbers", "axes"], ["logits"], keepdims=1),
    ]
    return _onnx(nodes, {"axes": np.array([1], np.int64)}, output=("logits", ["batch", 1]))


def _onnx(nodes: list[Any], constants: Mapping[str, np.ndarray], *, output: tuple[str, list[Any]]) -> bytes:
    names = ("input_ids", "attention_mask", "token_type_ids")
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"]) for name in names],
        [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = made.SerializeToString()
    return content


def reranker_files(kind: str) -> dict[str, bytes]:
    """Return the files of a reranker: ``xlm``, ``bert`` or ``onnx``."""
    random = np.random.default_rng(5)
    if kind == "bert":
        names, config, tensors = ("bert.pooler.dense", "classifier"), CONFIG, arrays()
        config = {**config, "architectures": ["BertForSequenceClassification"], "vocab_size": len(PIECES)}
        tensors = {f"bert.{name}": array for name, array in tensors.items()}
    else:
        names, tensors = ("classifier.dense", "classifier.out_proj"), xlm_arrays("roberta.")
        config = {**XLM, "architectures": ["XLMRobertaForSequenceClassification"]}
    for name, rows in zip(names, (8, 1), strict=True):
        tensors[f"{name}.weight"] = random.standard_normal((rows, 8), dtype=np.float32)
        tensors[f"{name}.bias"] = random.standard_normal(rows, dtype=np.float32)
    weights = {"model.onnx": onnx_classifier()} if kind == "onnx" else {"model.safetensors": save(tensors)}
    documents = {"config.json": {**config, "id2label": {"0": "LABEL_0"}}, "tokenizer.json": TOKENIZER}
    return {f"reranker/{name}": one for name, one in ({n: raw(d) for n, d in documents.items()} | weights).items()}
