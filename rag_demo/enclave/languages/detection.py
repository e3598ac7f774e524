"""The language of a text by a naive Bayes classifier over its letters (``py3langid``); its model is in the package.

The package unpacks its model by way of a temporary file. Here it is unpacked in memory, because the service writes no
file but its database, and its other folders may be read-only.
"""

from __future__ import annotations

import io
import lzma
import re
from array import array
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier

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
_TYPE_CODES: Final = {2: "H", 4: "I", 8: "L"}
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
    """Read the model, and keep what it has on these languages."""
    with lzma.open(Path(MODEL_DIR, MODEL_FILE)) as packed:
        whole = io.BytesIO(packed.read())
    with np.load(whole, allow_pickle=False) as model:
        names = model["classes"].tolist()
        kept = [at for at, name in enumerate(names) if name in LANGUAGES]
        return LanguageIdentifier(
            model["ptc"][:, kept],
            model["pc"][kept],
            [names[at] for at in kept],
            _numbers(model["nextmove"]),
            model["out_feat"].tolist(),
            norm_probs=True,
            tk_row=_numbers(model["nextmove_row"]),
        )


def _numbers(found: NDArray[np.unsignedinteger[Any]]) -> array[int]:
    """Return unsigned numbers as the array that the package walks over: quicker one by one than NumPy's."""
    return array(_TYPE_CODES[found.dtype.itemsize], found.tobytes())
