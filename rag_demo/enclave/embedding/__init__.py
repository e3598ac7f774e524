"""Passages to vectors, by a model that comes sealed and is opened in memory alone.

::

    from rag_demo.enclave.embedding import open_sealed_embedder

    with open_sealed_embedder("model.sealed", key=session, trusted=(owner,)) as embedder:
        vectors = embedder.embed(["How long is the lease?", "The lease runs for five years."])
        vectors[0] @ vectors[1]                              # their cosine

    configuration.py, wordpiece.py, weights.py    what a model has to be, file by file; anything else is refused
    numerics.py, encoder.py                       the encoder in NumPy
    embedder.py                                   texts in, vectors out: order, batches, length 1, closing
    opening.py                                    from a sealed folder to all of this; and sealing one
"""

from rag_demo.enclave.embedding.embedder import TextEmbedder
from rag_demo.enclave.embedding.files import PlainFolder, installed_model
from rag_demo.enclave.embedding.sealed_model import load_embedder, open_sealed_embedder, seal_model

__all__ = [
    "PlainFolder",
    "TextEmbedder",
    "installed_model",
    "load_embedder",
    "open_sealed_embedder",
    "seal_model",
]
