"""From a sealed folder and its key to a model that computes; and, for its owner, from a folder to a sealed one."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from datetime import datetime

from cryptography.hazmat.primitives.asymmetric import ec

from attest.sealed import (
    FileStore,
    KeyProvider,
    KeySource,
    ModelFiles,
    SealedModel,
    SealingNames,
    open_directory,
    seal_directory,
)
from rag_demo.enclave.embedding.configuration import (
    CONFIG_NAME,
    LENGTH_NAME,
    MODULES_NAME,
    POOLING_NAME,
    parse_config,
    parse_max_tokens,
    parse_pooling,
    require_modules,
)
from rag_demo.enclave.embedding.embedder import Encoder, TextEmbedder
from rag_demo.enclave.embedding.encoder import NumpyEncoder
from rag_demo.enclave.embedding.files import WEIGHTS_NAME, PlainFolder, fingerprint_of, read_whole
from rag_demo.enclave.embedding.onnx_model import OnnxEncoder, OnnxSession, onnx_name
from rag_demo.enclave.embedding.reranking import TextReranker, load_reranker
from rag_demo.enclave.embedding.tokenizer import parse_tokenizer
from rag_demo.enclave.embedding.tokenizer_parts import TOKENIZER_NAME
from rag_demo.enclave.embedding.weights import read_weights


def open_sealed_embedder(
    place: FileStore | str | os.PathLike[str],
    *,
    key: bytes | KeySource | KeyProvider,
    trusted: Collection[ec.EllipticCurvePublicKey],
    model: bytes | None = None,
) -> TextEmbedder:
    """Verify a sealed model, obtain its key, and decrypt it into memory; no plaintext is written to disk.

    Args:
        place: the sealed folder, or a store.
        key: 32 bytes as released; or a function that gets the verified manifest, or a session, called when everything
            else is verified.
        trusted: accepted signers; an empty tuple accepts none.
        model: the identity that it must have, 16 bytes; None takes any of the owner's, an older one too.

    Raises:
        ConfigurationError: ``embedding-model-incomplete``, ``embedding-config-unsupported``,
            ``embedding-tokenizer-unsupported`` or ``embedding-weights-unsuitable``: its owner sealed another kind of
            model.
        AttestError: as ``open_directory`` raises, and whatever obtaining the key raises.
    """
    with open_directory(place, key=key, trusted=trusted, model=model) as directory:
        return load_embedder(directory)


def open_sealed_models(
    place: FileStore | str | os.PathLike[str],
    *,
    key: bytes | KeySource | KeyProvider,
    trusted: Collection[ec.EllipticCurvePublicKey],
    model: bytes | None = None,
) -> tuple[TextEmbedder, TextReranker | None]:
    """Open an embedding model as ``open_sealed_embedder``, with the reranking model in its folder ``reranker``."""
    with open_directory(place, key=key, trusted=trusted, model=model) as directory:
        embedder = load_embedder(directory)
        try:
            return embedder, load_reranker(directory)
        except BaseException:
            embedder.close()
            raise


def load_embedder(model: ModelFiles) -> TextEmbedder:
    """Load a model from readable files: an open ``SealedDirectory``, or a ``PlainFolder``.

    Raises:
        ConfigurationError: as ``open_sealed_embedder``.
        AttestError: as reading raises.
    """
    config = parse_config(read_whole(model, CONFIG_NAME))
    require_modules(read_whole(model, MODULES_NAME))
    pooling = parse_pooling(read_whole(model, POOLING_NAME), config)
    max_tokens = parse_max_tokens(read_whole(model, LENGTH_NAME), config)
    tokens = parse_tokenizer(read_whole(model, TOKENIZER_NAME), vocabulary=config.vocabulary)
    # The weights last, after everything else was checked.
    name = None if WEIGHTS_NAME in model.entries else onnx_name(model)
    encoder: Encoder = (
        OnnxEncoder(OnnxSession(model, name, padding=config.padding), config, pooling=pooling)
        if name
        else NumpyEncoder(read_weights(model, config), config, pooling=pooling)
    )
    threads = max(1, len(os.sched_getaffinity(0)))
    return TextEmbedder(
        tokens,
        encoder,
        max_tokens=max_tokens,
        threads=threads,
        fingerprint=fingerprint_of(model),
        languages=() if tokens.multilingual else ("en",),
    )


def seal_model(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    key: bytes,
    names: SealingNames,
    signer: ec.EllipticCurvePrivateKey,
    random: Callable[[int], bytes],
    at: datetime | None,
) -> SealedModel:
    """Seal a sentence-embedding model, once it is certain that the enclave can compute it.

    Takes the arguments of ``attest.sealed.seal_directory``.

    Raises:
        ConfigurationError: as ``open_sealed_embedder``: the model is of another kind; or as ``seal_directory``.
        AttestError: as ``seal_directory``.
    """
    with load_embedder(PlainFolder(source)):
        reranker = load_reranker(PlainFolder(source))
    if reranker is not None:
        reranker.close()
    return seal_directory(source, target, key=key, names=names, signer=signer, random=random, at=at)
