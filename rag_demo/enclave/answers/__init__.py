"""A question and what was found → an answer, or "I don't know".

::

    extracts.py     what an answer is made of
    extracting.py   the sentences of the documents that answer, verbatim; the default
    wording.py      the same, worded by a language model inside the boundary
    language.py     a server of that model: which addresses are allowed, what is asked, what comes back
    prompting.py    what it is told
    chunks.py       events of its stream, read strictly
    marks.py        citations in its text, those that name nothing taken out
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
