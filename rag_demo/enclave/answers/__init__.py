"""A question and the passages found for it → an answer, or that nothing near enough was found.

::

    extracts.py     the contents of an answer
    extractive.py   answers in sentences, lists and tables of the documents, verbatim; the default
    quotation.py    the parts of a passage that can be quoted, and stretches that hold them
    coverage.py     how much of a question the words of a text cover
    generated.py    the same, worded by a language model inside the boundary
    language.py     the server of that model: allowed addresses, requests, responses
    prompt.py       its prompt
    chunks.py       events of its stream, read strictly
    citations.py    citations in its text, without those that name no passage
"""

from rag_demo.enclave.answers.extractive import KNOWN_LANGUAGE, OTHER_LANGUAGE, PassagesAnswerer, Weighing
from rag_demo.enclave.answers.extracts import UNKNOWN, Cited, Extract, Writer
from rag_demo.enclave.answers.generated import GeneratedAnswerer
from rag_demo.enclave.answers.language import LanguageModel, LanguageModelLimits
from rag_demo.enclave.errors import AnswerError, LanguageModelError

__all__ = [
    "KNOWN_LANGUAGE",
    "OTHER_LANGUAGE",
    "UNKNOWN",
    "AnswerError",
    "Cited",
    "Extract",
    "GeneratedAnswerer",
    "LanguageModel",
    "LanguageModelError",
    "LanguageModelLimits",
    "PassagesAnswerer",
    "Weighing",
    "Writer",
]
