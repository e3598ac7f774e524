"""The encoder as an ONNX graph, built in memory. It names its weights and does not hold them.

The graph pads, where the encoder in NumPy does not: what is beyond a text's end gets no attention, and no part in its
sum.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper

from rag_demo.enclave.embedding.configuration import EncoderConfig
from rag_demo.enclave.embedding.weights import Floats, LayerWeights, Linear, Norm, Weights

__all__ = ["IDS", "MASK", "POSITIONS", "SUMS", "encoder_graph"]

IDS: Final = "ids"
"""Numbers of tokens, int64 of shape (texts, length); what is beyond a text's end is any token."""
MASK: Final = "mask"
"""float32 of the same shape: 1 for a token, 0 beyond the end."""
POSITIONS: Final = "positions"
"""The numbers from 0 to length - 1, int64."""
SUMS: Final = "sums"
"""The sum of each text's states, float32 of shape (texts, dimensions)."""

_OPSET: Final = 20  # The first with Gelu.
_IR_VERSION: Final = 10
_NOWHERE: Final = -1e9
"""Added to the attention that nothing gets: its exponential is 0."""


class _Graph:
    """Nodes, and the weights and constants that they name."""

    def __init__(self, config: EncoderConfig) -> None:
        self.config = config
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self.weights: dict[str, Floats] = {}

    def add(self, kind: str, *inputs: str, output: str | None = None, **attributes: float | list[int] | str) -> str:
        name = output or f"{kind}:{len(self.nodes)}"
        node = helper.make_node(kind, list(inputs), [name], name=name)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(node)
        return name

    def numbers(self, values: list[int]) -> str:
        name = f"constant:{len(self.constants)}"
        self.constants.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def number(self, value: float) -> str:
        name = f"constant:{len(self.constants)}"
        self.constants.append(helper.make_tensor(name, TensorProto.FLOAT, [], [value]))
        return name

    def weight(self, values: Floats) -> str:
        name = f"weight:{len(self.weights)}"
        self.weights[name] = values
        return name

    def linear(self, values: str, part: Linear) -> str:
        return self.add("Gemm", values, self.weight(part.weight), self.weight(part.bias), transB=1)

    def norm(self, values: str, part: Norm) -> str:
        weight, bias = self.weight(part.weight), self.weight(part.bias)
        return self.add("LayerNormalization", values, weight, bias, axis=-1, epsilon=self.config.epsilon)

    def reshape(self, values: str, shape: list[int] | str) -> str:
        return self.add("Reshape", values, self.numbers(shape) if isinstance(shape, list) else shape)


def encoder_graph(weights: Weights, config: EncoderConfig) -> tuple[ModelProto, dict[str, Floats]]:
    """Return the graph of an encoder, and its weights by the names that the graph gives them.

    Args:
        weights: of the encoder; not copied.
        config: its sizes.
    """
    graph = _Graph(config)
    words = graph.add("Gather", graph.weight(weights.words), IDS)
    states = graph.add("Add", words, graph.add("Gather", graph.weight(weights.positions), POSITIONS))
    padded = graph.add("Shape", states)
    states = graph.norm(graph.reshape(states, [-1, config.hidden]), weights.norm)
    # (texts, length) → (texts, 1, 1, length): the same for every head and for every token that asks.
    beyond = graph.add("Mul", graph.add("Sub", graph.number(1.0), MASK), graph.number(_NOWHERE))
    beyond = graph.add("Unsqueeze", beyond, graph.numbers([1, 2]))
    split = graph.add("Concat", graph.add("Shape", IDS), graph.numbers(_split(config)), axis=0)
    for layer in weights.layers:
        states = _layer(graph, states, layer, beyond=beyond, split=split)
    _sums(graph, graph.reshape(states, padded))
    return _model(graph), graph.weights


def _split(config: EncoderConfig) -> list[int]:
    return [3, config.heads, config.hidden // config.heads]


def _layer(graph: _Graph, states: str, layer: LayerWeights, *, beyond: str, split: str) -> str:
    taken = _attention(graph, graph.linear(states, layer.attention), beyond=beyond, split=split)
    mixed = graph.add("Add", graph.linear(taken, layer.attention_output), states)
    mixed = graph.norm(mixed, layer.attention_norm)
    between = graph.add("Gelu", graph.linear(mixed, layer.intermediate), approximate="none")
    out = graph.add("Add", graph.linear(between, layer.output), mixed)
    return graph.norm(out, layer.output_norm)


def _attention(graph: _Graph, fused: str, *, beyond: str, split: str) -> str:
    # (texts · length, 3 · hidden) → (3, texts, heads, length, size)
    parts = graph.add("Transpose", graph.reshape(fused, split), perm=[2, 0, 3, 1, 4])
    queries, keys, values = (graph.add("Squeeze", _third(graph, parts, at), graph.numbers([0])) for at in range(3))
    scores = graph.add("MatMul", queries, graph.add("Transpose", keys, perm=[0, 1, 3, 2]))
    shares = graph.add("Softmax", graph.add("Add", scores, beyond), axis=-1)
    taken = graph.add("Transpose", graph.add("MatMul", shares, values), perm=[0, 2, 1, 3])
    return graph.reshape(taken, [-1, graph.config.hidden])


def _third(graph: _Graph, parts: str, at: int) -> str:
    return graph.add("Slice", parts, graph.numbers([at]), graph.numbers([at + 1]), graph.numbers([0]))


def _sums(graph: _Graph, states: str) -> None:
    mask = graph.add("Unsqueeze", MASK, graph.numbers([2]))
    graph.add("ReduceSum", graph.add("Mul", states, mask), graph.numbers([1]), output=SUMS, keepdims=0)


def _model(graph: _Graph) -> ModelProto:
    shape = ["texts", "length"]
    proto = helper.make_graph(
        graph.nodes,
        "encoder",
        [
            helper.make_tensor_value_info(IDS, TensorProto.INT64, shape),
            helper.make_tensor_value_info(MASK, TensorProto.FLOAT, shape),
            helper.make_tensor_value_info(POSITIONS, TensorProto.INT64, shape[1:]),
        ],
        [helper.make_tensor_value_info(SUMS, TensorProto.FLOAT, ["texts", graph.config.hidden])],
        initializer=[*graph.constants, *(_reference(name, values) for name, values in graph.weights.items())],
    )
    return helper.make_model(proto, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)


def _reference(name: str, values: NDArray[np.float32]) -> TensorProto:
    """Return a tensor whose values are elsewhere: they are handed over beside the graph, and never in a file."""
    proto = TensorProto()
    proto.name = name
    proto.data_type = TensorProto.FLOAT
    proto.dims.extend(values.shape)
    proto.data_location = TensorProto.EXTERNAL
    entry = proto.external_data.add()
    entry.key, entry.value = "location", "beside the graph"
    return proto
