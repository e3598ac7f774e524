"""Multilingual models in their usual forms, and reranking models, by the same code and from the same sealed folder."""

import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from attest.errors import ConfigurationError
from attest.sealed import SealingNames
from rag_demo.enclave.embedding import PlainFolder, load_embedder, open_sealed_models, seal_model
from rag_demo.enclave.embedding.configuration import parse_config
from rag_demo.enclave.embedding.encoder import NumpyEncoder
from rag_demo.enclave.embedding.reranking import load_reranker
from rag_demo.enclave.embedding.tokenizer import parse_tokenizer
from rag_demo.enclave.embedding.weights import take_weights
from tests.rag_demo.embedding.multilingual import (
    CHARSMAP,
    PIECES,
    TOKENIZER,
    XLM,
    onnx_classifier,
    onnx_encoder,
    reranker_files,
    table,
    xlm_arrays,
    xlm_model,
)
from tests.rag_demo.embedding.small import POOLING, SmallModel, raw, reference
from tests.sealed.made import KEY, NAMES, OWNER, stream

TEXTS = {"": [0, 2], "a": [0, 4, 2], "a b": [0, 4, 5, 2], "bc a": [0, 5, 7, 4, 2]}
ONNX = {"model.onnx": onnx_encoder()}


def changed(document: dict[str, Any], path: str, value: object) -> object:  # Any: JSON
    made: Any = copy.deepcopy(document)
    *places, last = (int(one) if one.isdigit() else one for one in path.split("/"))
    part = made
    for place in places:
        part = part[place]
    part[last] = value
    return made


def refusal(model: SmallModel) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load_embedder(model)
    return caught.value


def test_a_text_is_divided_as_by_hand_and_marks_in_it_are_text() -> None:
    tokens = parse_tokenizer(raw(TOKENIZER), vocabulary=len(PIECES) + 30)
    assert {text: tokens.encode(text, most=9) for text in TEXTS} == TEXTS
    assert tokens.encode("\uff41", most=9) == [0, 4, 2]  # NFKC
    for text in ("</s>", "\0</s>", "a</s>", "<s> <pad>"):
        assert not set(tokens.encode(text, most=99)[1:-1]) & {0, 1, 2}
    assert tokens.encode_pair("a a a a", "b", most=9) == ([0, 4, 4, 2, 2, 5, 2], 5)
    assert tokens.multilingual


@given(st.text(max_size=60), st.integers(2, 20))
def test_any_text_becomes_numbers_of_the_vocabulary(text: str, most: int) -> None:
    tokens = parse_tokenizer(raw(TOKENIZER), vocabulary=len(PIECES))
    numbers = tokens.encode(text, most=most)
    assert len(numbers) <= most
    assert set(numbers[1:-1]) <= set(range(3, len(PIECES)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": CHARSMAP}),
        ("normalizer", {"type": "Sequence", "normalizers": [{"type": "NFKC"}]}),
        (
            "normalizer",
            {
                "type": "Sequence",
                "normalizers": [{"type": "NFKC"}, {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}],
            },
        ),
        (
            "pre_tokenizer",
            {"type": "Metaspace", "replacement": "\u2581", "str_rep": "\u2581", "add_prefix_space": True},
        ),
        ("model", {name: one for name, one in TOKENIZER["model"].items() if name in {"unk_id", "vocab"}}),
    ],
)
def test_the_usual_spellings_of_the_tokeniser_are_read(path: str, value: object) -> None:
    tokens = parse_tokenizer(raw(changed(TOKENIZER, path, value)), vocabulary=len(PIECES))
    assert tokens.encode("a b", most=9) == TEXTS["a b"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model/unk_id", 10),
        ("model/unk_id", True),
        ("model/byte_fallback", True),
        ("model/dropout", 0.1),
        ("model/vocab", []),
        ("model/vocab", "a"),
        ("model/vocab/4", ["\u2581a"]),
        ("model/vocab/4", ["\u2581a", True]),
        ("model/vocab/4", [4, -1.0]),
        ("model/vocab/4", ["\0", -1.0]),
        ("model/vocab/5", ["\u2581a", -1.0]),
        ("added_tokens/1/content", "\u2581a"),
        ("normalizer", None),
        ("normalizer", {"type": "Lowercase"}),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "?"}),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": None}),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "BAAAAAAAAAA="}),
        ("normalizer", {"type": "Sequence", "normalizers": None}),
        ("normalizer", {"type": "Replace", "pattern": {"Regex": "a"}, "content": "b"}),
        ("normalizer", {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "b"}),
        ("pre_tokenizer", None),
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": []}),
        ("pre_tokenizer", {"type": "Metaspace", "replacement": "_"}),
        ("pre_tokenizer", {"type": "Metaspace", "replacement": "\u2581", "add_prefix_space": False}),
        ("post_processor/special_tokens/<s>/ids", [3]),
    ],
)
def test_another_tokeniser_of_this_kind_is_refused(path: str, value: object) -> None:
    error = refusal(xlm_model(tokenizer=changed(TOKENIZER, path, value)))
    assert (error.code, (error.field or "")[:15]) == ("embedding-tokenizer-unsupported", "tokenizer.json:")


def test_more_pieces_than_vectors_are_refused() -> None:
    assert refusal(xlm_model(config={**XLM, "vocab_size": 9})).code == "embedding-tokenizer-unsupported"


def test_an_xlm_roberta_model_gives_the_vectors_of_the_definitions() -> None:
    with load_embedder(xlm_model()) as embedder:
        vectors = embedder.embed(tuple(TEXTS))
        assert (embedder.languages, embedder.max_tokens) == ((), 7)
    expected = np.array([reference(numbers) for numbers in TEXTS.values()])
    assert np.abs(vectors - expected).max() < 2e-6


@pytest.mark.parametrize(
    "config",
    [
        {**XLM, "pad_token_id": 0},
        {**XLM, "architectures": ["BertModel"]},
        {**XLM, "model_type": "bert"},
        {**XLM, "id2label": {"0": "x"}},
        {**XLM, "max_position_embeddings": 8},
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(config: object) -> None:
    assert refusal(xlm_model(config=config)).code == "embedding-config-unsupported"


@pytest.mark.parametrize("weights", [None, ONNX])
def test_the_first_state_is_the_vector_where_the_pooling_says_so(weights: dict[str, bytes] | None) -> None:
    pooling = {**POOLING, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    with load_embedder(xlm_model(pooling=pooling, weights=weights)) as embedder:
        got = embedder.embed(["a b", "a"])
    if weights is None:
        config = parse_config(raw(XLM))
        expected = NumpyEncoder(take_weights(xlm_arrays(), config), config).first_states([[0, 4, 2], [0, 4, 5, 2]])[
            ::-1
        ]
    else:
        expected = table()[[0, 0]]
    assert np.abs(got - expected / np.linalg.norm(expected, axis=1, keepdims=True)).max() < 1e-6
    with load_embedder(xlm_model(weights=weights)) as embedder:
        assert np.abs(got - embedder.embed(["a b", "a"])).max() > 1e-5


@pytest.mark.parametrize("name", ["model.onnx", "onnx/model.onnx"])
def test_a_model_in_the_form_of_onnx_gives_the_means_of_its_states(name: str) -> None:
    with load_embedder(xlm_model(weights={name: onnx_encoder()})) as embedder:
        vectors = embedder.embed(tuple(TEXTS))
        assert embedder.fingerprint != ""
    expected = np.array([table()[numbers].mean(axis=0) for numbers in TEXTS.values()])
    assert np.abs(vectors - expected / np.linalg.norm(expected, axis=1, keepdims=True)).max() < 1e-6
    with pytest.raises(ValueError, match="closed"):
        embedder.embed(["a"])


@pytest.mark.parametrize("content", [b"", b"no model", onnx_encoder()[:-20], onnx_classifier()])
def test_an_onnx_file_that_is_no_encoder_is_refused(content: bytes) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_embedder(xlm_model(weights={"model.onnx": content})).embed(["a"])
    assert caught.value.code == "embedding-weights-unsuitable"


def test_without_the_library_of_onnx_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    error = refusal(xlm_model(weights=ONNX))
    assert error.code == "embedding-runtime-missing"
    assert "attest-kms[onnx]" in (error.hint or "")


# -- rerankers


def test_there_is_no_reranker_where_there_is_no_folder() -> None:
    assert load_reranker(xlm_model()) is None


@pytest.mark.parametrize("kind", ["xlm", "bert"])
def test_a_reranker_gives_the_probabilities_of_the_definitions(kind: str) -> None:
    files = reranker_files(kind)
    reranker = load_reranker(SmallModel(files))
    assert reranker is not None
    tensors = load(files["reranker/model.safetensors"])
    config = parse_config(files["reranker/config.json"], classifies=True)
    encoder = NumpyEncoder(take_weights({name: one.copy() for name, one in tensors.items()}, config), config)
    numbers, start = parse_tokenizer(raw(TOKENIZER), vocabulary=len(PIECES)).encode_pair("a", "b", most=9)
    state = encoder.first_states([numbers], [start])[0]
    dense, last = ("bert.pooler.dense", "classifier") if kind == "bert" else ("classifier.dense", "classifier.out_proj")
    between = np.tanh(tensors[f"{dense}.weight"] @ state + tensors[f"{dense}.bias"])
    logit = float((tensors[f"{last}.weight"] @ between + tensors[f"{last}.bias"])[0])
    # The second text is of another kind for BERT alone.
    assert np.array_equal(encoder.first_states([numbers])[0], state) is (kind == "xlm")
    with reranker:
        one, other, again = reranker.scores("a", ["b", "c b", "b"])
        assert abs(one - 1 / (1 + np.exp(-logit))) < 1e-6
        assert (one, one != other) == (again, True)
        assert reranker.scores("a", []) == []
    with pytest.raises(ValueError, match="closed"):
        reranker.scores("a", ["b"])


def test_a_reranker_in_the_form_of_onnx_reads_the_second_text() -> None:
    reranker = load_reranker(SmallModel(reranker_files("onnx")))
    assert reranker is not None
    with reranker:
        short, long = reranker.scores("a", ["b", "b b a"])
    assert [round(float(np.log(one / (1 - one)))) for one in (short, long)] == [2, 4]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", raw({**XLM, "architectures": ["XLMRobertaForSequenceClassification"], "id2label": {}})),
        ("config.json", raw(XLM)),
        ("model.safetensors", save(xlm_arrays("roberta."))),
        ("model.onnx", onnx_encoder()),
    ],
)
def test_a_reranker_of_another_kind_is_refused(name: str, content: bytes) -> None:
    model = SmallModel(reranker_files("xlm") | {f"reranker/{name}": content})
    with pytest.raises(ConfigurationError):
        load_reranker(model).scores("a", ["b"])  # type: ignore[union-attr]  # it is there


@pytest.mark.parametrize("weights", [None, ONNX])
def test_both_models_come_from_one_sealed_folder(tmp_path: Path, weights: dict[str, bytes] | None) -> None:
    folder = tmp_path / "plain"
    for name, content in (dict(xlm_model(weights=weights).entries) | reranker_files("xlm")).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    names: SealingNames = NAMES
    seal_model(folder, tmp_path / "sealed", key=KEY, names=names, signer=OWNER, random=stream(), at=None)
    embedder, reranker = open_sealed_models(tmp_path / "sealed", key=KEY, trusted=(OWNER.public_key(),))
    assert reranker is not None
    with embedder, reranker, load_embedder(PlainFolder(folder)) as plain:
        assert np.array_equal(embedder.embed(["a b"]), plain.embed(["a b"]))
        assert embedder.fingerprint == plain.fingerprint
        assert 0 < reranker.scores("a", ["b"])[0] < 1
