"""What a model has to be: each member, each tensor, and that anything else is refused as what it is."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from rag_demo.enclave.embedding import PlainFolder, installed_model, load_embedder
from rag_demo.enclave.embedding import files as model_files
from tests.rag_demo.embedding.small import DOCUMENTS, Arrays, SmallModel, arrays, small_model

Spoil = Callable[[Any], object]  # Any: JSON that is about to be wrong


def refusal(model: SmallModel) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load_embedder(model)
    assert caught.value.hint
    return caught.value


def put(name: str, value: object) -> Spoil:
    """Return what sets a member, named by its path."""

    def spoil(document: Any) -> None:  # noqa: ANN401  see Spoil
        *path, last = (int(part) if part.isdigit() else part for part in name.split("/"))
        for part in path:
            document = document[part]
        document[last] = value

    return spoil


def drop(name: str) -> Spoil:
    def spoil(document: Any) -> None:  # noqa: ANN401  see Spoil
        *path, last = (int(part) if part.isdigit() else part for part in name.split("/"))
        for part in path:
            document = document[part]
        del document[last]

    return spoil


def test_the_small_model_is_a_good_one() -> None:
    with load_embedder(small_model()) as embedder:
        assert (embedder.dimensions, embedder.max_tokens) == (8, 7)


@pytest.mark.parametrize("name", [*DOCUMENTS, "model.safetensors"])
def test_a_file_that_is_missing_is_named(name: str) -> None:
    files = dict(small_model().entries)
    del files[name]
    error = refusal(SmallModel(files))
    assert error.code == ("safetensors-missing" if name == "model.safetensors" else "embedding-model-incomplete")
    assert name in error.message


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=tmp_path.name) as caught:
        load_embedder(PlainFolder(tmp_path))
    assert caught.value.code == "embedding-model-incomplete"


@pytest.mark.parametrize("package", ["no_such_package", "json"])
def test_a_model_that_is_not_installed_is_told_with_what_installs_it(package: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        installed_model(package)
    assert caught.value.code == "embedding-model-missing"
    assert "requirements/model.txt" in (caught.value.hint or "")


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b'{"a": 1, "a": 1}', b"[" * 9999, b"{}"])
def test_a_document_that_is_none_is_refused(name: str, content: bytes) -> None:
    error = refusal(small_model(lambda _: content, of=name))
    assert error.code == (
        "embedding-tokenizer-unsupported" if name == "tokenizer.json" else "embedding-config-unsupported"
    )
    assert name in (error.field or "")


CONFIG_MEMBERS = [
    (put("model_type", "roberta"), "model_type"),
    (drop("model_type"), "model_type"),
    (put("hidden_act", "gelu_new"), "hidden_act"),
    (drop("hidden_act"), "hidden_act"),
    (put("architectures", ["BertForMaskedLM"]), "architectures"),
    (drop("architectures"), "architectures"),
    (put("position_embedding_type", "relative_key"), "position_embedding_type"),
    (put("is_decoder", True), "is_decoder"),
    (put("is_decoder", 0), "is_decoder"),
    (put("add_cross_attention", True), "add_cross_attention"),
    (put("quantization_config", {}), "quantization_config"),
    (put("hidden_size", 0), "hidden_size"),
    (put("hidden_size", 8.0), "hidden_size"),
    (put("hidden_size", "8"), "hidden_size"),
    (put("hidden_size", 4097), "hidden_size"),
    (drop("hidden_size"), "hidden_size"),
    (put("num_hidden_layers", True), "num_hidden_layers"),
    (put("num_hidden_layers", 49), "num_hidden_layers"),
    (put("num_attention_heads", 3), "num_attention_heads"),
    (put("vocab_size", 10**18), "vocab_size"),
    (put("layer_norm_eps", 0.0), "layer_norm_eps"),
    (put("layer_norm_eps", 1), "layer_norm_eps"),
    (put("layer_norm_eps", 1.0), "layer_norm_eps"),
    (drop("layer_norm_eps"), "layer_norm_eps"),
]


@pytest.mark.parametrize(("spoil", "member"), CONFIG_MEMBERS)
def test_a_configuration_of_another_model_is_refused(spoil: Spoil, member: str) -> None:
    error = refusal(small_model(spoil))
    assert (error.code, error.field) == ("embedding-config-unsupported", f"config.json: {member}")
    assert error.expected
    assert error.got


@pytest.mark.parametrize(
    ("of", "spoil"),
    [
        ("1_Pooling/config.json", put("word_embedding_dimension", 9)),
        ("1_Pooling/config.json", put("word_embedding_dimension", True)),
        ("1_Pooling/config.json", drop("word_embedding_dimension")),
        ("1_Pooling/config.json", put("pooling_mode_cls_token", True)),
        ("1_Pooling/config.json", put("pooling_mode_mean_tokens", False)),
        ("1_Pooling/config.json", put("pooling_mode_mean_tokens", 1)),
        ("1_Pooling/config.json", drop("pooling_mode_mean_tokens")),
        ("1_Pooling/config.json", put("pooling_mode_lasttoken", True)),
        ("1_Pooling/config.json", put("weights", False)),
        ("modules.json", drop("1")),
        ("modules.json", put("1/type", "sentence_transformers.models.Dense")),
        ("modules.json", put("1", None)),
        ("modules.json", lambda modules: [*modules, modules[2]]),
        ("sentence_bert_config.json", put("max_seq_length", 10)),
        ("sentence_bert_config.json", put("max_seq_length", 2)),
        ("sentence_bert_config.json", put("max_seq_length", None)),
        ("sentence_bert_config.json", put("max_seq_length", True)),
        ("sentence_bert_config.json", put("do_lower_case", True)),
        ("sentence_bert_config.json", put("prompts", {})),
    ],
)
def test_what_would_be_done_with_the_states_otherwise_is_refused(of: str, spoil: Spoil) -> None:
    error = refusal(small_model(spoil, of=of))
    assert error.code == "embedding-config-unsupported"
    assert (error.field or "").startswith(of)


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (drop("normalizer"), "normalizer"),
        (put("more", 1), "more"),
        (put("model/type", "BPE"), "model"),
        (put("model/type", ["WordPiece"]), "model"),
        (put("model/dropout", 0.1), "model.dropout"),
        (put("model/continuing_subword_prefix", "@@"), "model.continuing_subword_prefix"),
        (put("model/unk_token", "unknown"), "model.unk_token"),
        (put("model/unk_token", 1), "model.unk_token"),
        (put("model/max_input_chars_per_word", 0), "model.max_input_chars_per_word"),
        (put("model/max_input_chars_per_word", 1001), "model.max_input_chars_per_word"),
        (put("model/max_input_chars_per_word", True), "model.max_input_chars_per_word"),
        (put("model/vocab", ["a"]), "model.vocab"),
        (put("model/vocab/e", 10), "model.vocab"),
        (drop("model/vocab/d"), "model.vocab"),
        (put("model/vocab/d", 7), "model.vocab"),
        (put("model/vocab/d", 10), "model.vocab"),
        (put("model/vocab/d", -1), "model.vocab"),
        (put("model/vocab/d", 8.0), "model.vocab"),
        (put("model/vocab/b", True), "model.vocab"),
        (put("model/vocab/d", 2**70), "model.vocab"),
        (put("added_tokens", None), "added_tokens[0]"),
        (put("added_tokens/0/special", False), "added_tokens[0]"),
        (put("added_tokens/2/id", 7), "added_tokens[2]"),
        (put("added_tokens/1/content", "a b"), "added_tokens[1]"),
        (put("added_tokens/1/content", []), "added_tokens[1]"),
        (put("normalizer/type", "Sequence"), "normalizer"),
        (put("normalizer/clean_text", False), "normalizer.clean_text"),
        (put("normalizer/lowercase", 1), "normalizer.lowercase"),
        (put("normalizer/strip_accents", "yes"), "normalizer.strip_accents"),
        (drop("normalizer/handle_chinese_chars"), "normalizer.handle_chinese_chars"),
        (put("pre_tokenizer/type", "Whitespace"), "pre_tokenizer"),
        (put("post_processor/type", "BertProcessing"), "post_processor"),
        (drop("post_processor/single/2"), "post_processor.single"),
        (put("post_processor/single/1", {"Sequence": {"id": "B", "type_id": 0}}), "post_processor.single"),
        (put("post_processor/single/0/SpecialToken/type_id", 1), "post_processor.single"),
        (put("post_processor/single/0/SpecialToken/id", "[BOS]"), "post_processor.single"),
        (put("post_processor/single/0", "[CLS]"), "post_processor.single"),
        (put("post_processor/special_tokens/[CLS]/ids", [3]), "post_processor.special_tokens.[CLS]"),
        (put("post_processor/special_tokens", None), "post_processor.special_tokens.[CLS]"),
    ],
)
def test_another_tokeniser_is_refused(spoil: Spoil, field: str) -> None:
    error = refusal(small_model(spoil, of="tokenizer.json"))
    assert (error.code, error.field) == ("embedding-tokenizer-unsupported", f"tokenizer.json: {field}")


def test_a_vocabulary_of_another_size_than_the_table_of_vectors_is_refused() -> None:
    assert refusal(small_model(put("vocab_size", 11))).code == "embedding-tokenizer-unsupported"


@pytest.mark.parametrize(
    ("of", "member"), [(of, member) for of in ("config.json", "tokenizer.json") for member in ("x" * 10**6, "\u202e")]
)
def test_a_strangers_member_does_not_fill_a_message(of: str, member: str) -> None:
    assert len(refusal(small_model(put(member, "y" * 10**6), of=of)).message) < 1000


def test_a_file_that_is_larger_than_any_such_file_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "MAX_FILE_BYTES", len(small_model().entries["config.json"]) - 1)
    error = refusal(small_model())
    assert (error.code, error.field) == ("embedding-model-incomplete", "config.json")


QUERY = "encoder.layer.1.attention.self.query.weight"


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("encoder.layer.2.output.dense.bias", np.zeros(8, np.float32)),
        ("classifier.weight", np.zeros(8, np.float32)),
        (QUERY, None),
        (QUERY, np.zeros((8, 9), np.float32)),
        (QUERY, np.zeros(64, np.float32)),
        (QUERY, np.zeros((8, 8), np.float16)),
        (QUERY, np.zeros((8, 8), np.float64)),
        (QUERY, np.zeros((8, 8), np.int32)),
    ],
)
def test_weights_that_do_not_fit_are_refused(name: str, array: np.ndarray | None) -> None:
    tensors = {**arrays(), **({} if array is None else {name: array})}
    if array is None:
        del tensors[name]
    error = refusal(small_model(tensors=tensors))
    assert error.code == "embedding-weights-unsuitable"
    assert name in error.message


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["embeddings.word_embeddings.weight", QUERY, "encoder.layer.0.output.LayerNorm.bias"])
def test_weights_that_are_no_numbers_are_refused(name: str, wrong: float) -> None:
    tensors = arrays()
    tensors[name].flat[-1] = wrong
    error = refusal(small_model(tensors=tensors))
    assert error.code == "embedding-weights-unsuitable"
    assert error.field == f"tensor {name}"


def test_vectors_that_are_no_numbers_are_not_given_out() -> None:
    tensors = arrays()
    tensors["encoder.layer.0.intermediate.dense.weight"] *= np.float32(1e37)
    tensors["encoder.layer.0.output.dense.weight"] *= np.float32(1e37)
    with load_embedder(small_model(tensors=tensors)) as embedder:
        with pytest.raises(ConfigurationError) as caught:
            embedder.embed(["a", "b"])
        assert caught.value.code == "embedding-weights-unsuitable"


def test_the_layer_of_another_task_is_passed_over() -> None:
    more: Arrays = {
        "embeddings.position_ids": np.arange(9, dtype=np.int64)[None],
        "pooler.dense.weight": np.full((8, 8), np.nan, np.float32),
        "pooler.dense.bias": np.zeros(8, np.float32),
    }
    with load_embedder(small_model(tensors={**arrays(), **more})) as other, load_embedder(small_model()) as embedder:
        assert np.array_equal(other.embed(["a b"]), embedder.embed(["a b"]))


@pytest.mark.parametrize("of", DOCUMENTS)
@settings(max_examples=25)
@given(data=st.data())
def test_any_value_in_any_place_is_a_model_or_a_documented_refusal(of: str, data: st.DataObject) -> None:
    def places(value: Any, path: str) -> list[str]:  # noqa: ANN401  see Spoil
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        found = [path] if path else []
        for key, one in inner:
            found += places(one, f"{path}/{key}" if path else str(key))
        return found

    place = data.draw(st.sampled_from(places(DOCUMENTS[of], "")))
    anything = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=4,
    )
    model = small_model(put(place, data.draw(anything)), of=of)
    with suppress(ConfigurationError):
        load_embedder(model).close()
