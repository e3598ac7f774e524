"""The weights of an encoder: exactly those of its configuration, finite, and wiped at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from attest.sealed import ModelFiles, TensorSet, open_model
from rag_demo.enclave.embedding.configuration import EncoderConfig
from rag_demo.enclave.embedding.refusals import WEIGHTS, brief, unsuitable

Floats: TypeAlias = NDArray[np.float32]

_KIND: Final = "F32"
_UNUSED: Final = ("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias")
"""Further tensors of such files: the numbers 0, 1, 2…, and a layer for another task. Not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """``x · weightᵀ + bias``.

    Attributes:
        weight: of shape (outputs, inputs).
        bias: of shape (outputs,).
    """

    weight: Floats
    bias: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Norm:
    """A layer normalisation."""

    weight: Floats
    bias: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """The weights of one layer, in the order in which they are used.

    Attributes:
        attention: queries, keys and values, one below the other; queries are divided by the root of a head's size.
        attention_output: puts the heads together.
    """

    attention: Linear
    attention_output: Linear
    attention_norm: Norm
    intermediate: Linear
    output: Linear
    output_norm: Norm


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights of an encoder.

    Attributes:
        words: a row for each token.
        positions: a row for each position, with the row of the first segment type added.
        second: what is added to the tokens of a second text: the difference of two segment types.
    """

    words: Floats
    positions: Floats
    second: Floats
    norm: Norm
    layers: tuple[LayerWeights, ...]

    def arrays(self) -> Iterator[Floats]:
        """Give each array once."""
        yield from (self.words, self.positions, self.second, self.norm.weight, self.norm.bias)
        for layer in self.layers:
            for part in (layer.attention, layer.attention_output, layer.intermediate, layer.output):
                yield from (part.weight, part.bias)
            for norm in (layer.attention_norm, layer.output_norm):
                yield from (norm.weight, norm.bias)

    def wipe(self) -> None:
        """Overwrite all of them with zeros."""
        for array in self.arrays():
            array.fill(0)


def tensor_shapes(config: EncoderConfig) -> dict[str, tuple[int, ...]]:
    """Return the names and shapes of the tensors that an encoder needs."""
    wide, between = config.hidden, config.intermediate
    start = config.prefix
    shapes: dict[str, tuple[int, ...]] = {
        f"{start}embeddings.word_embeddings.weight": (config.vocabulary, wide),
        f"{start}embeddings.position_embeddings.weight": (config.positions, wide),
        f"{start}embeddings.token_type_embeddings.weight": (config.types, wide),
        **_shapes(f"{start}embeddings.LayerNorm", wide),
    }
    for at in range(config.layers):
        layer = f"{start}encoder.layer.{at}."
        for name in ("query", "key", "value"):
            shapes.update(_shapes(f"{layer}attention.self.{name}", wide, wide))
        shapes.update(_shapes(f"{layer}attention.output.dense", wide, wide))
        shapes.update(_shapes(f"{layer}attention.output.LayerNorm", wide))
        shapes.update(_shapes(f"{layer}intermediate.dense", between, wide))
        shapes.update(_shapes(f"{layer}output.dense", wide, between))
        shapes.update(_shapes(f"{layer}output.LayerNorm", wide))
    return shapes


def read_weights(model: ModelFiles, config: EncoderConfig) -> Weights:
    """Read the weights of a model straight into the arrays that compute with them.

    Raises:
        ConfigurationError: ``embedding-weights-unsuitable``; or ``safetensors-missing``.
        AttestError: as reading a sealed file raises.
    """
    return take_weights(read_arrays(model, config, tensor_shapes(config)), config)


def read_arrays(model: ModelFiles, config: EncoderConfig, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Floats]:
    """Read tensors of a model that has these and no others; errors as ``read_weights``."""
    with open_model(model) as tensors:
        _require_tensors(tensors, shapes, unused={config.prefix + name for name in _UNUSED})
        arrays: dict[str, Floats] = tensors.load(shapes)
        return arrays


def take_weights(arrays: Mapping[str, Floats], config: EncoderConfig) -> Weights:
    """Make the weights of an encoder of its tensors, which are used up: those that are not kept are overwritten.

    Args:
        arrays: by name, those of ``tensor_shapes`` with these shapes, writable, each in memory of its own.
        config: of the encoder.

    Raises:
        ConfigurationError: ``embedding-weights-unsuitable``; everything is overwritten then.
    """
    try:
        _require_finite(arrays)
    except BaseException:
        for array in arrays.values():
            array.fill(0)
        raise
    start = config.prefix
    positions = arrays[f"{start}embeddings.position_embeddings.weight"]
    types = arrays[f"{start}embeddings.token_type_embeddings.weight"]
    positions += types[0]
    second = types[min(1, len(types) - 1)] - types[0]
    types.fill(0)
    return Weights(
        words=arrays[f"{start}embeddings.word_embeddings.weight"],
        positions=positions,
        second=second,
        norm=_norm(arrays, f"{start}embeddings.LayerNorm"),
        layers=tuple(_layer(arrays, f"{start}encoder.layer.{at}.", config) for at in range(config.layers)),
    )


def _layer(arrays: Mapping[str, Floats], layer: str, config: EncoderConfig) -> LayerWeights:
    return LayerWeights(
        attention=_fused(arrays, f"{layer}attention.self.", scale=(config.hidden // config.heads) ** -0.5),
        attention_output=_linear(arrays, f"{layer}attention.output.dense"),
        attention_norm=_norm(arrays, f"{layer}attention.output.LayerNorm"),
        intermediate=_linear(arrays, f"{layer}intermediate.dense"),
        output=_linear(arrays, f"{layer}output.dense"),
        output_norm=_norm(arrays, f"{layer}output.LayerNorm"),
    )


def _fused(arrays: Mapping[str, Floats], layer: str, *, scale: float) -> Linear:
    """Put queries, keys and values together: one product of matrices instead of three, and no division afterwards."""
    parts = [_linear(arrays, layer + name) for name in ("query", "key", "value")]
    fused = Linear(
        weight=np.concatenate([one.weight for one in parts]), bias=np.concatenate([one.bias for one in parts])
    )
    for one in parts:
        one.weight.fill(0)
        one.bias.fill(0)
    outputs = len(parts[0].bias)
    fused.weight[:outputs] *= np.float32(scale)
    fused.bias[:outputs] *= np.float32(scale)
    return fused


def _linear(arrays: Mapping[str, Floats], name: str) -> Linear:
    return Linear(weight=arrays[f"{name}.weight"], bias=arrays[f"{name}.bias"])


def _norm(arrays: Mapping[str, Floats], name: str) -> Norm:
    return Norm(weight=arrays[f"{name}.weight"], bias=arrays[f"{name}.bias"])


def _shapes(name: str, *weight: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": weight, f"{name}.bias": weight[:1]}


def _require_names(found: set[str], wanted: set[str]) -> None:
    for name in sorted(found ^ wanted):
        raise unsuitable(
            WEIGHTS,
            f"tensor {brief(name)}",
            expected="it among the weights, as config.json says" if name in wanted else "no such tensor",
            got="nothing" if name in wanted else "it",
        )


def _require_tensors(tensors: TensorSet, shapes: Mapping[str, tuple[int, ...]], *, unused: set[str]) -> None:
    """Look at the headers, before memory is taken for what they promise."""
    _require_names(set(tensors.keys()) - (unused - set(shapes)), set(shapes))
    for name, shape in shapes.items():
        info = tensors.info(name)
        if info.dtype != _KIND or info.shape != shape:
            got = f"{info.dtype} {brief(info.shape)}"
            raise unsuitable(WEIGHTS, f"tensor {name}", expected=f"{_KIND} {shape}", got=got)


def _require_finite(arrays: Mapping[str, Floats]) -> None:
    for name, array in arrays.items():
        # The minimum and the maximum are NaN where any number is, and need no second array.
        if not (np.isfinite(array.min()) and np.isfinite(array.max())):
            raise unsuitable(WEIGHTS, f"tensor {name}", expected="finite numbers", got="one that is not")
