"""Compare an answer with the accepted ones: exact match and F1.

Normalisation is that of SQuAD's and Search-R1's evaluation: lower case, no ASCII punctuation, no
articles, single spaces. Three additions, which change nothing for texts of plain ASCII words:

* Unicode is folded with NFKC first (full-width letters, ligatures, non-breaking spaces), and
  Unicode's punctuation and invisible characters go the way of ASCII's punctuation, so that
  a curly apostrophe equals a straight one. Accents stay: "Peru" is not "Perú".
* An answer made of articles alone ("A", the blood group; "The The") keeps them, and one made of
  punctuation alone ("?") keeps that. SQuAD turns both into "", which an empty answer would match.
* A blank answer, or a blank alias, matches nothing.
"""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable

_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Characters that stand in for ASCII punctuation although Unicode calls them symbols: acute accent
# (before NFKC, which would make it a space and a mark), fraction slash, minus sign.
_LOOKALIKES = str.maketrans("", "", "\u00b4\u2044\u2212")
# Unicode's punctuation, and its invisible format characters (zero-width space, soft hyphen).
_DROPPED = frozenset({"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Cf"})
_ARTICLES = re.compile(r"\b(a|an|the)\b")
# HotpotQA's official script: a wrong yes/no earns no partial credit.
_CLOSED_ANSWERS = frozenset({"yes", "no", "noanswer"})


def _without_punctuation(text: str) -> str:
    text = text.translate(_ASCII_PUNCTUATION)
    if text.isascii():
        return text
    return "".join(char for char in text if unicodedata.category(char) not in _DROPPED)


def normalize(text: str) -> str:
    """The form in which answers are compared; "" only for a blank text."""
    folded = unicodedata.normalize("NFKC", text.translate(_LOOKALIKES)).lower()
    bare = _without_punctuation(folded.translate(_LOOKALIKES))
    for form in (_ARTICLES.sub(" ", bare), bare, folded):
        if words := form.split():
            return " ".join(words)
    return ""


def exact_match(prediction: str, answers: Iterable[str]) -> bool:
    """Whether the prediction equals an accepted answer after normalisation."""
    predicted = normalize(prediction)
    return bool(predicted) and any(predicted == normalize(answer) for answer in answers)


def _token_f1(predicted: str, accepted: str) -> float:
    if predicted != accepted and not _CLOSED_ANSWERS.isdisjoint((predicted, accepted)):
        return 0.0
    predicted_words, accepted_words = predicted.split(), accepted.split()
    common = (Counter(predicted_words) & Counter(accepted_words)).total()
    # The harmonic mean of common/predicted and common/accepted; blank texts share no word.
    return 2 * common / (len(predicted_words) + len(accepted_words)) if common else 0.0


def f1(prediction: str, answers: Iterable[str]) -> float:
    """SQuAD's token F1, the best over the accepted answers, 0 to 1.

    A "yes", "no" or "noanswer" on either side is right or wrong, as in HotpotQA's script.
    """
    predicted = normalize(prediction)
    return max((_token_f1(predicted, normalize(answer)) for answer in answers), default=0.0)


def mentions(text: str, answer: str) -> bool:
    """Whether the answer's words stand in the text, one after the other, after normalisation."""
    words = normalize(answer)
    return bool(words) and f" {words} " in f" {normalize(text)} "
