"""A question and the passages found for it → an answer, or "I don't know".

::

    extracts.py     the contents of an answer
    extractive.py   answers in sentences of the documents, verbatim; the default
    generated.py    the same, worded by a language model inside the boundary
    language.py     the server of that model: allowed addresses, requests, responses
    prompt.py       its prompt
    chunks.py       events of its stream, read strictly
    citations.py    citations in its text, without those that name no passage
"""

from rag_demo.enclave.answers.extractive import THRESHOLD, PassagesAnswerer
from rag_demo.enclave.answers.extracts import UNKNOWN, Cited, Extract
from rag_demo.enclave.answers.generated import GeneratedAnswerer
from rag_demo.enclave.answers.language import LanguageModel, LanguageModelLimits
from rag_demo.enclave.errors import AnswerError, LanguageModelError

__all__ = [
    "THRESHOLD",
    "UNKNOWN",
    "AnswerError",
    "Cited",
    "Extract",
    "GeneratedAnswerer",
    "LanguageModel",
    "LanguageModelError",
    "LanguageModelLimits",
    "PassagesAnswerer",
]
