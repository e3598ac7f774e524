"""Words that a question has for its form: articles, question words, auxiliaries, and verbs that say little.

Its subject is in the others. Folded as `words_of` folds. For languages without a list here, every word counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_WORDS: Final[Mapping[str, frozenset[str]]] = {
    "en": frozenset(
        """
        a about after all am an and any are as at be been before being belong belongs but by can could did do does
        doing done down find finds for found from get given go goes had has have having he her here high his how i if
        in into is it its know like long made make makes many may me mine more most much must my need needs no not of
        off often on one only or our ours out over own per s shall she should so some soon such t take taken takes
        tell than that the their them then there these they this those to too up us use used was we were what when
        where whether which while who whom whose why will with would you your yours
        """.split()  # noqa: SIM905  words in quotes are harder to read
    ),
    "de": frozenset(
        """
        ab aber alle als also am an auch auf aus bei beim bekommen bin bis bitte da damit dann darf das dass dein dem
        den denn der des die dies diese diesem diesen dieser dieses doch du durch durfen ein eine einem einen einer
        eines er es finden fur geben gehoren gehort gemacht genommen gestellt gibt habe haben hat hatte hatten hoch
        ich ihr ihre im in ins ist ja kann kein keine konnen lange machen macht man mein meine mit muss mussen nach
        nehmen nicht nimmt noch nur ob oder oft ohne sein seine seit sich sie sind so soll sollen sowie stellen stellt
        tun uber um und uns unser unter viel viele vom von vor wann war waren warum was welche welchem welchen welcher
        welches wem wen wenn wer werden wie wieso wird wo wodurch wofur woher wohin womit worden wurde wurden zu zum
        zur
        """.split()  # noqa: SIM905  words in quotes are harder to read
    ),
    "fr": frozenset(
        """
        a ai au aux avec c ce ces cet cette combien comment d dans de des dois doit donc du elle elles en est et etait
        etre existe faire fait faut il ils j je l la le les leur leurs lui m ma mais me mes mettre mon n ne nous on
        ont ou par pas peut peuvent peux plus pour pourquoi prend prendre prise puis qu quand que quel quelle quelles
        quels qui quoi s sa sans se ses si soit son sont sur t ta te temps tes ton trouve trouver tu un une va vos
        votre vous y
        """.split()  # noqa: SIM905  words in quotes are harder to read
    ),
    "es": frozenset(
        """
        a al algo como con cual cuales cuando cuanta cuantas cuanto cuantos de debe deben debo del donde el ella ellos
        en encontrar entre era es esta estan este esto existe fue ha hace hacer hacia han hasta hay hora la las le les
        lo los mas me mi mis muy necesita necesitan no nos o para pero pone poner por porque pueda puede pueden puedo
        que quien se segun sin sobre son su sus tambien te tengo tiempo tiene tienen toma tomar tu un una unas uno
        unos va y ya
        """.split()  # noqa: SIM905  words in quotes are harder to read
    ),
}


def is_function_word(word: str, language: str) -> bool:
    """Return true if a word, as `words_of` gives it, says nothing about the subject of a question."""
    return word in _WORDS.get(language, frozenset())
