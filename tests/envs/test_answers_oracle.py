"""EM and F1 against torchmetrics' SQuAD metric, on 2,000 drawn pairs.

Where none of the deviations that `envs.answers` documents applies, both agree. Where one does, the
pair is told by looking at its characters (not by asking `envs.answers`), and what must come out is
said per class, from torchmetrics' numbers for the text as the deviation reads it.
"""

import random
import re
import string
import unicodedata
from collections import Counter

import pytest
import torch
from torchmetrics.functional.text import squad

from envs.answers import exact_match, f1

PAIRS = 2_000
WORDS = [
    *("paris", "Paris", "Perú", "naïve", "Zürich", "København", "Dvořák", "東京", "大阪"),
    *("Москва", "القاهرة", "1984", "3,500", "3.14", "-7", "U.S.A.", "O'Brien", "rock-and-roll"),
    *("(disputed)", "AC/DC", "50%", "don't", "A", "The", "an", "theory", "anthem", "red"),
    *("green", "lake"),
]
MARKS = [",", ".", "!", "?", ";", "...", "-", '"']
UNICODE = [
    "\uff30\uff41\uff52\uff49\uff53",
    "\ufb01nal",
    "O\u2019Brien",
    "\u201cDune\u201d",
    "1965\u201370",
    "\uff11\uff19\uff18\uff14",
    "Par\u200bis",
    "\u22127",
    "\u300c東京\u300d",
]
CLOSED = ["yes", "No", "noanswer", "YES.", "yes it is", "no longer"]
BARE = ["", " ", "the", "A", "The a", "?", "...", "\n"]
# What the second implementation knows of Unicode: its own list, for the marks drawn above.
STRAIGHT = str.maketrans(dict.fromkeys("\u2019\u201c\u201d\u2013\u2212\u300c\u300d\u200b"))


def drawn(seed: int) -> list[tuple[str, list[str]]]:
    """Pairs of a prediction and one to three accepted answers, half of them much alike."""
    draw = random.Random(seed)

    def phrase() -> str:
        kind = draw.random()
        if kind < 0.06:
            return draw.choice(BARE)
        if kind < 0.14:
            return draw.choice(CLOSED)
        words = [draw.choice(WORDS) for _ in range(draw.randint(1, 5))]
        if kind < 0.3:
            words.insert(draw.randint(0, len(words)), draw.choice(UNICODE))
        return draw.choice([" ", "  "]).join(words) + draw.choice(["", "", *MARKS])

    def variant(text: str) -> str:
        change = draw.choice([str.upper, str.lower, "the {}".format, "{}!".format, phrase_added])
        return change(text)

    def phrase_added(text: str) -> str:
        return f"{text} {phrase()}"

    pairs = []
    for _ in range(PAIRS):
        answers = [phrase() for _ in range(draw.randint(1, 3))]
        prediction = variant(draw.choice(answers)) if draw.random() < 0.5 else phrase()
        pairs.append((prediction, answers))
    return pairs


def by_squad(prediction: str, answers: list[str]) -> tuple[float, float]:
    """Exact match and F1, 0 to 1."""
    scores = squad(
        [{"prediction_text": prediction, "id": "1"}],
        [{"answers": {"answer_start": [0] * len(answers), "text": answers}, "id": "1"}],
    )
    return float(scores["exact_match"]) / 100, float(scores["f1"]) / 100


def is_bare(text: str) -> bool:
    """Whether SQuAD leaves nothing of it."""
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return not re.sub(r"\b(a|an|the)\b", " ", kept).split()


def is_closed(text: str) -> bool:
    return text.lower().strip(string.punctuation + " ") in ("yes", "no", "noanswer")


def is_folded(text: str) -> bool:
    """Whether NFKC or a mark beyond ASCII changes it."""
    return unicodedata.normalize("NFKC", text) != text or text.translate(STRAIGHT) != text


def deviation(prediction: str, answers: list[str]) -> str:
    """The deviations that apply to a pair, "" for none."""
    texts = [prediction, *answers]
    found = []
    if any(is_bare(text) for text in texts):
        found.append("bare")
    if any(is_folded(text) for text in texts):
        found.append("folded")
    if any(is_closed(text) for text in texts):
        found.append("closed")
    return "+".join(found)


def straight(text: str) -> str:
    """The text as one would type it in ASCII, accents and scripts kept."""
    return unicodedata.normalize("NFKC", text.translate(STRAIGHT))


def left_over(text: str) -> str:
    """A bare text, in words that SQuAD keeps: articles as other words, marks as a word each."""
    words = re.findall(r"\w+", text.lower()) or text.split()
    return " ".join(
        f"article{word}" if word.isalpha() else "mark" + "".join(f"x{ord(c)}" for c in word)
        for word in words
    )


def by_documentation(prediction: str, answers: list[str]) -> tuple[float, float]:
    """What `envs.answers` promises, from torchmetrics' numbers for each accepted answer."""
    scores = []
    for answer in answers:
        texts = [straight(prediction), straight(answer)]
        if not all(text.strip() for text in texts):
            scores.append((0.0, 0.0))  # a blank text matches nothing
            continue
        if all(is_bare(text) for text in texts):
            texts = [left_over(text) for text in texts]
        elif any(is_bare(text) for text in texts):
            # One of only articles or marks, one with words; no word of both is the same.
            scores.append((0.0, 0.0))
            continue
        em, partial = by_squad(texts[0], [texts[1]])
        if any(is_closed(text) for text in texts) and not em:
            partial = 0.0  # HotpotQA: all or nothing
        scores.append((em, partial))
    return max(em for em, _ in scores), max(partial for _, partial in scores)


@pytest.fixture(autouse=True)
def in_double_precision():
    """torchmetrics divides in torch's default type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


# Class -> its pairs of the 2,000, and how many of them SQuAD scores otherwise.
CLASSES = {
    "": (889, 0),
    "bare": (227, 36),
    "folded": (546, 31),
    "closed": (146, 6),
    "bare+folded": (96, 7),
    "bare+closed": (32, 3),
    "folded+closed": (61, 9),
    "bare+folded+closed": (3, 0),
}


def test_em_and_f1_are_those_of_squad_or_documented():
    pairs: Counter[str] = Counter()
    differ: Counter[str] = Counter()
    for prediction, answers in drawn(seed=0):
        kind = deviation(prediction, answers)
        ours = (float(exact_match(prediction, answers)), f1(prediction, answers))
        squads = by_squad(prediction, answers)
        wanted = by_documentation(prediction, answers) if kind else squads
        assert ours == pytest.approx(wanted, abs=1e-12), (prediction, answers, kind)
        pairs[kind] += 1
        differ[kind] += squads != pytest.approx(ours, abs=1e-12)
    assert {kind: (pairs[kind], differ[kind]) for kind in pairs} == CLASSES


def test_the_plain_pairs_are_no_mere_misses():
    plain = [pair for pair in drawn(seed=0) if not deviation(*pair)]
    scores = [f1(prediction, answers) for prediction, answers in plain]
    equal = sum(exact_match(prediction, answers) for prediction, answers in plain)
    assert (scores.count(0.0), sum(0 < s < 1 for s in scores), equal) == (201, 234, 453)


@pytest.mark.parametrize(
    ("kind", "prediction", "answer", "ours", "squads"),
    [
        ("bare", "A", "A", (1, 1), (1, 1)),
        ("bare", "the", "A", (0, 0), (1, 1)),
        ("bare", "", "", (0, 0), (1, 1)),
        ("bare", "", "the", (0, 0), (1, 1)),
        ("bare", "?", "...", (0, 0), (1, 1)),
        ("bare", "", "paris", (0, 0), (0, 0)),
        ("folded", "\uff30\uff41\uff52\uff49\uff53", "paris", (1, 1), (0, 0)),
        ("folded", "O\u2019Brien", "O'Brien", (1, 1), (0, 0)),
        ("folded", "\u201cDune\u201d 1984", "Dune 1984", (1, 1), (0, 0.5)),
        ("closed", "yes it is", "yes", (0, 0), (0, 0.5)),
        ("closed", "no", "no longer", (0, 0), (0, 2 / 3)),
        ("closed", "YES.", "yes", (1, 1), (1, 1)),
    ],
)
def test_what_each_deviation_changes(kind, prediction, answer, ours, squads):
    assert deviation(prediction, [answer]) == kind
    assert (exact_match(prediction, [answer]), f1(prediction, [answer])) == pytest.approx(ours)
    assert by_squad(prediction, [answer]) == pytest.approx(squads)
