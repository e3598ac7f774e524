"""The language of a text, and its words as they are looked up and compared.

::

    detection.py        the language of a text, from the text alone
    terms.py            the words of a text, folded; and their stems
    function_words.py   the words that a question has for its form and not for its subject
"""

from rag_demo.enclave.languages.detection import language_of
from rag_demo.enclave.languages.function_words import is_function_word
from rag_demo.enclave.languages.terms import question_words, stems_of, words_of

__all__ = ["is_function_word", "language_of", "question_words", "stems_of", "words_of"]
