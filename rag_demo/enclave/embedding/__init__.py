"""Passages to vectors, by a sealed model that is opened in memory alone.

::

    from rag_demo.enclave.embedding import open_sealed_embedder

    with open_sealed_embedder("model.sealed", key=session, trusted=(owner,)) as embedder:
        vectors = embedder.embed(["How long is the lease?", "The lease runs for five years."])
        vectors[0] @ vectors[1]                              # their cosine

    configuration.py, tokenizer*.py, weights.py   the accepted models, file by file; others are refused
    wordpiece.py, unigram.py, tokens.py           their tokenisers
    numerics.py, encoder.py                       the encoder in NumPy
    onnx_model.py                                 the same in ONNX Runtime, for models in that form
    reranking.py                                  a model that reads a question and a text together
    embedder.py                                   texts in, vectors out: order, batches, length 1, closing
    sealed_model.py                               a sealed folder to an embedder; and sealing one
"""

from rag_demo.enclave.embedding.embedder import TextEmbedder
from rag_demo.enclave.embedding.files import PlainFolder, installed_model
from rag_demo.enclave.embedding.sealed_model import load_embedder, open_sealed_embedder, open_sealed_models, seal_model

__all__ = [
    "PlainFolder",
    "TextEmbedder",
    "installed_model",
    "load_embedder",
    "open_sealed_embedder",
    "open_sealed_models",
    "seal_model",
]
