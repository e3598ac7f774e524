"""The language of a text by a naive Bayes classifier over its letters (``py3langid``); its model is in the package."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from py3langid.langid import MODEL_FILE, LanguageIdentifier

LANGUAGES: Final = (
    "ar",
    "bg",
    "bn",
    "ca",
    "cs",
    "da",
    "de",
    "el",
    "en",
    "es",
    "et",
    "eu",
    "fa",
    "fi",
    "fr",
    "ga",
    "he",
    "hi",
    "hr",
    "hu",
    "hy",
    "id",
    "it",
    "ja",
    "ko",
    "lt",
    "lv",
    "ne",
    "nl",
    "no",
    "pl",
    "pt",
    "ro",
    "ru",
    "sk",
    "sl",
    "sr",
    "sv",
    "ta",
    "th",
    "tr",
    "uk",
    "ur",
    "vi",
    "zh",
)
"""Languages that are told apart (ISO 639-1). A text in another one gets the name of a similar one, or none."""
SAMPLE_CHARACTERS: Final = 4000
"""Part of a text that is looked at."""
LEAST_LETTERS: Final = 12
LEAST_CONFIDENCE: Final = 0.4
_LETTERS: Final = re.compile(r"[^\W\d_]+")


def language_of(text: str) -> str:
    """Return the language of a text, ISO 639-1; empty where the text is too short or could be of several."""
    sample = " ".join(_LETTERS.findall(text[:SAMPLE_CHARACTERS]))
    if len(sample) < LEAST_LETTERS:
        return ""
    language, confidence = _identifier().classify(sample)
    return str(language) if confidence >= LEAST_CONFIDENCE else ""


@cache
def _identifier() -> LanguageIdentifier:
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    identifier.set_languages(LANGUAGES)
    return identifier
