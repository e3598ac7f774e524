"""The description of a model, as far as it is computed here: an encoder of BERT's kind, its pooling, length 1.

The list of members is closed. One that is not known here could change what the model means (another kind of positions,
another activation), and a vector that is wrong looks like one that is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from attest.encoding import JsonValue, json_value
from attest.errors import ConfigurationError, EvidenceError
from rag_demo.enclave.embedding.refusals import CONFIG, brief, unsuitable

CONFIG_NAME: Final = "config.json"
POOLING_NAME: Final = "1_Pooling/config.json"
MODULES_NAME: Final = "modules.json"
LENGTH_NAME: Final = "sentence_bert_config.json"

_FIXED: Final[Mapping[str, tuple[JsonValue, ...]]] = {
    "model_type": ("bert", "xlm-roberta"),
    "hidden_act": ("gelu",),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "chunk_size_feed_forward": (0,),
}
"""Members that change what is computed, with the values that are computed here. All but the first two may be absent."""
_REQUIRED: Final = ("model_type", "hidden_act")
_BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "hidden_size": (1, 4096),
    "intermediate_size": (1, 16_384),
    "max_position_embeddings": (3, 8192),
    "num_attention_heads": (1, 64),
    "num_hidden_layers": (1, 48),
    "type_vocab_size": (1, 16),
    "vocab_size": (4, 1_000_000),
}
"""Sizes, bounded so that a member cannot ask for more memory than any such model has."""
_WITHOUT_EFFECT: Final = frozenset(
    {
        "_name_or_path",
        "architectures",  # Checked separately.
        "attention_probs_dropout_prob",
        "bos_token_id",  # The tokeniser's own marks are in force.
        "classifier_dropout",
        "dtype",
        "eos_token_id",
        "gradient_checkpointing",
        "hidden_dropout_prob",
        "initializer_range",
        "layer_norm_eps",  # Read separately.
        "output_past",
        "pad_token_id",  # There is no padding, or it is masked. Read for XLM-RoBERTa, which counts positions from it.
        "tokenizer_class",
        "torch_dtype",  # The weights state their own type.
        "transformers_version",
        "use_cache",
    }
)
"""Members for training, for other programs, or read elsewhere."""
_MIN_EPSILON, _MAX_EPSILON = 1e-15, 1e-3
_MODULES: Final = ("Transformer", "Pooling", "Normalize")
_ARCHITECTURES: Final[Mapping[tuple[str, bool], str]] = {
    ("bert", False): "BertModel",
    ("bert", True): "BertForSequenceClassification",
    ("xlm-roberta", False): "XLMRobertaModel",
    ("xlm-roberta", True): "XLMRobertaForSequenceClassification",
}
"""By type, and whether it classifies."""
_OF_CLASSIFIERS: Final = frozenset({"id2label", "label2id", "problem_type", "sentence_transformers"})
_ROBERTA_PADDING: Final = 1


class Pooling(Enum):
    """The state, or states, of a text's tokens that its vector is made of."""

    MEAN = "mean"
    FIRST = "first"


_POOLINGS: Final[Mapping[str, Pooling]] = {
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_cls_token": Pooling.FIRST,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderConfig:
    """The sizes of an encoder.

    Attributes:
        hidden: length of a token's vector.
        intermediate: its length between the two halves of a feed-forward network.
        heads: of the attention; divides ``hidden``.
        positions: rows of the table of positions.
        first_position: row of the first token; XLM-RoBERTa leaves two out.
        types: kinds of segments; only the first is used.
        epsilon: added to the variance before its root is taken.
        prefix: of the names of its tensors.
    """

    hidden: int
    intermediate: int
    layers: int
    heads: int
    positions: int
    types: int
    vocabulary: int
    epsilon: float
    first_position: int = 0
    prefix: str = ""

    @property
    def padding(self) -> int:
        """Number of the token that fills up shorter texts, where a text is filled up; it is masked."""
        return max(0, self.first_position - 1)

    @property
    def longest(self) -> int:
        """The longest text in tokens."""
        return self.positions - self.first_position


def json_object(raw: bytes, *, name: str, code: str) -> dict[str, JsonValue]:
    """Read a file of a model that is one JSON object.

    Raises:
        ConfigurationError: ``code``.
    """
    document = _json(raw, name=name, code=code)
    if not isinstance(document, dict):
        raise unsuitable(code, name, expected="a JSON object", got=brief(document))
    return document


def parse_config(raw: bytes, *, classifies: bool = False) -> EncoderConfig:
    """Read ``config.json``.

    Args:
        raw: the file.
        classifies: of a model that gives a question and a text one number.

    Raises:
        ConfigurationError: ``embedding-config-unsupported``.
    """
    document = json_object(raw, name=CONFIG_NAME, code=CONFIG)
    more = _OF_CLASSIFIERS if classifies else frozenset()
    unknown = sorted(document.keys() - _FIXED.keys() - _BOUNDS.keys() - _WITHOUT_EFFECT - more)
    if unknown:
        raise _refuse(unknown[0], expected="no such member: its meaning is unknown", got=document[unknown[0]])
    for name, values in _FIXED.items():
        if name in _REQUIRED or name in document:
            _require_one_of(document, name, values)
    kind = str(document["model_type"])
    _require_one_of(document, "architectures", ([_ARCHITECTURES[kind, classifies]],))
    labels = document.get("id2label")
    if classifies and (not isinstance(labels, dict) or len(labels) != 1):
        raise _refuse("id2label", expected="one label: the number that says how near a text is", got=labels)
    roberta = kind == "xlm-roberta"
    if roberta:
        _require_one_of(document, "pad_token_id", (_ROBERTA_PADDING,))
    sizes = {name: _size(document, name, *bounds) for name, bounds in _BOUNDS.items()}
    if sizes["hidden_size"] % sizes["num_attention_heads"]:
        raise _refuse("num_attention_heads", expected="a divisor of hidden_size", got=sizes["num_attention_heads"])
    return EncoderConfig(
        hidden=sizes["hidden_size"],
        intermediate=sizes["intermediate_size"],
        layers=sizes["num_hidden_layers"],
        heads=sizes["num_attention_heads"],
        positions=sizes["max_position_embeddings"],
        types=sizes["type_vocab_size"],
        vocabulary=sizes["vocab_size"],
        epsilon=_epsilon(document),
        first_position=_ROBERTA_PADDING + 1 if roberta else 0,
        prefix=("roberta." if roberta else "bert.") if classifies else "",
    )


def parse_pooling(raw: bytes, config: EncoderConfig) -> Pooling:
    """Return, from ``1_Pooling/config.json``, what of the vectors of its tokens is a text's: their mean, or the first.

    Raises:
        ConfigurationError: ``embedding-config-unsupported``.
    """
    document = json_object(raw, name=POOLING_NAME, code=CONFIG)
    size = document.pop("word_embedding_dimension", None)
    if isinstance(size, bool) or size != config.hidden:
        field = f"{POOLING_NAME}: word_embedding_dimension"
        raise unsuitable(CONFIG, field, expected=str(config.hidden), got=brief(size))
    # Without a prompt, both values have the same effect.
    document.pop("include_prompt", None)
    chosen = next((name for name in _POOLINGS if document.get(name) is True), "pooling_mode_mean_tokens")
    for name, value in document.items():
        if not name.startswith("pooling_mode_") or value is not (name == chosen):
            field = f"{POOLING_NAME}: {brief(name)}"
            expected = "the mean of all tokens or the first token, and no other mode"
            raise unsuitable(CONFIG, field, expected=expected, got=brief(value))
    if chosen not in document:
        raise unsuitable(CONFIG, POOLING_NAME, expected=chosen, got="nothing of it")
    return _POOLINGS[chosen]


def require_modules(raw: bytes) -> None:
    """Require, in ``modules.json``, that a model is an encoder and its pooling; every vector gets length 1 here.

    Raises:
        ConfigurationError: ``embedding-config-unsupported``.
    """
    document = _json(raw, name=MODULES_NAME, code=CONFIG)
    modules = document if isinstance(document, list) else []
    kinds = [str(one.get("type")).rpartition(".")[2] if isinstance(one, dict) else "" for one in modules]
    if kinds not in (list(_MODULES), list(_MODULES[:2])):
        raise unsuitable(CONFIG, MODULES_NAME, expected=", ".join(_MODULES), got=brief(kinds or document))


def parse_max_tokens(raw: bytes, config: EncoderConfig) -> int:
    """Return how many tokens of a text are read, its two marks included, from ``sentence_bert_config.json``.

    ``tokenizer.json`` often names another, smaller number; this file is the one that is in force for such a model.

    Raises:
        ConfigurationError: ``embedding-config-unsupported``.
    """
    document = json_object(raw, name=LENGTH_NAME, code=CONFIG)
    unknown = sorted(document.keys() - {"max_seq_length", "do_lower_case"})
    if unknown or document.get("do_lower_case", False) is not False:
        field = f"{LENGTH_NAME}: {brief(unknown[0]) if unknown else 'do_lower_case'}"
        raise unsuitable(CONFIG, field, expected="max_seq_length, and do_lower_case false", got=brief(document))
    length = document.get("max_seq_length")
    if isinstance(length, bool) or not isinstance(length, int) or not 3 <= length <= config.longest:
        field = f"{LENGTH_NAME}: max_seq_length"
        raise unsuitable(CONFIG, field, expected=f"an integer from 3 to {config.longest}", got=brief(length))
    return length


def _json(raw: bytes, *, name: str, code: str) -> JsonValue:
    try:
        return json_value(raw, what=name)
    except EvidenceError as exc:
        raise unsuitable(code, name, expected="one strict JSON document", got=exc.message) from exc


def _require_one_of(document: Mapping[str, JsonValue], name: str, values: tuple[JsonValue, ...]) -> None:
    value = document.get(name)
    # By type too: otherwise True equals 1 and False equals 0.
    if not any(type(value) is type(one) and value == one for one in values):
        raise _refuse(name, expected=" or ".join(map(brief, values)), got=value)


def _size(document: Mapping[str, JsonValue], name: str, least: int, most: int) -> int:
    value = document.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _refuse(name, expected=f"an integer from {least} to {most}", got=value)
    return value


def _epsilon(document: Mapping[str, JsonValue]) -> float:
    value = document.get("layer_norm_eps")
    if not isinstance(value, float) or not _MIN_EPSILON <= value <= _MAX_EPSILON:
        raise _refuse("layer_norm_eps", expected=f"a number from {_MIN_EPSILON} to {_MAX_EPSILON}", got=value)
    return value


def _refuse(name: str, *, expected: str, got: JsonValue) -> ConfigurationError:
    return unsuitable(CONFIG, f"{CONFIG_NAME}: {name[:100]}", expected=expected, got=brief(got))
