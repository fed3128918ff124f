"""Multiple choice: which options a prediction names, from "B" to a paragraph of reasoning.

A prediction becomes one line of words and marks, in which the options' texts are references ("@B ";
the longest text first, so that "type 1 diabetes" does not name "diabetes"). Patterns over that line
find what is named. Every piece of a pattern ends with the space that ends a word.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

_BOXED = re.compile(r"\\f?boxed\s*\{")  # \boxed{B}, the answer of mathematical models
_LATEX = re.compile(r"\\[a-z]+\s*\{")
_DASH = re.compile("[\u2010-\u2015\u2212]")
# What goes: a word's apostrophe, the dots within an abbreviation (U.S.), a number's comma.
_INNER = re.compile(
    "(?<=[^\\W_])['\u2019](?=[^\\W_])|(?<=\\b[^\\W\\d_])\\.(?=[^\\W\\d_]\\b)|(?<=\\d),(?=\\d{3}(?!\\d))"
)
# A number with its sign, a word with its hyphens, or a mark. Opening brackets, quotes and markup
# are none of these; every closing bracket is ")".
_TOKEN = re.compile(
    r"(?:(?<![\w)])-)?\d+(?:[.,:/]\d+)*(?![^\W_])"
    r"|[^\W_]+(?:-[^\W_]+)*"
    "|\n|[^\\w\\s(\\[{\"'`*#$@^~|\\\\\u2018-\u201f]"
)
_CLOSING = str.maketrans("]}", "))")
_MARKS = frozenset(".,;:!?)/&-\n")
# Articles within an option's text, and at its start. The "A" of "Vitamin A" and "A. niger" is none.
_LOWER = frozenset({"a", "an", "the"})
_UPPER = frozenset({"A", "An", "The", "AN", "THE"})

_ARTICLE = "(?:a|an|the) "
_KIND = "(?:option|choice|letter|answer) "
_KINDS = rf"(?:(?:the )?{_KIND}(?:: )?)?"
_HEDGE = "(?:possibly|maybe|perhaps|probably|also|even|either|both) "
_SURELY = (
    "(?:therefore|thus|clearly|most|likely|probably|definitely|indeed|simply|also|either|both|the) "
)
_FIT = "(?:correct|right|best|final|only|likely|appropriate|suitable|accurate|my) "
_IS = r"(?:is|are|was|(?:would|should|must|will|has to) be|remains|[:=-]) "
_DENIED = (
    "(?P<denied>(?:not|dont|doubt|if|whether|unless|suppose|assume|assuming|wrong|incorrect|worst|"
    f"neither|nor|none of|cannot) (?:(?:think|believe|that) |{_ARTICLE}|{_FIT}){{0,6}})?"
)
# What ends an option's name. Other words make it part of a longer phrase ("B cells").
_REASON = (
    "(?:because|since|as|while|whereas|but|rather|instead|over|so|here|due to|based on|"
    r"according to|given (?:that|the)|not (?:the|option|[^\W_]|@[^\W_]+)) "
)
_CLAIM = (
    rf"(?:(?:answers?|ans(?: \.)?|(?:the |{_FIT})(?:option|choice)) (?:(?:choice|option|letter|"
    rf"here|in this case|(?:to|for) (?:this|the) question) )?(?:{_IS})+|answer |(?:i|we|id|ill) "
    r"(?:(?:would|will|am|shall|must) )?(?:choose|pick|select|go with|going with|answer) )"
)
_VERDICT = (
    rf"(?:is|are) (?:{_SURELY}){{0,4}}"
    rf"(?:(?:{_FIT})+(?:(?:answer|option|choice|one|match) )?|answer )"
    rf"(?=[.,;:!)\n] |$|{_REASON}|(?:for|to|in|among|of|given|when) )"
)
_CONCLUDES = (
    "(?:is|are|its|thats|(?:must|would|should|could) be|so|therefore|thus|hence|think|believe|has|"
    "probably|likely|definitely) "
)
_DENIAL = re.compile(r" (?:not|never|cannot|unlikely|doubt|neither|nor|without|except|\w+nt) ")
# "C. difficile" is no answer C.
_NO_GENUS = r"(?!(?<=(?-i:[A-Z]) )\. (?!because|this|that|there)(?-i:[a-z]{4}))"
_LISTED = 12  # options in one list at most, so that matching is linear in the length of a text
_ENDING = 300  # characters of a text's end in which its conclusion stands


def option_letter(prediction: str, options: Mapping[str, str]) -> str | None:
    """The option that a prediction names, or None if it names none or more than one."""
    named = named_options(prediction, options)
    return next(iter(named)) if len(named) == 1 else None


def named_options(prediction: str, options: Mapping[str, str]) -> frozenset[str]:
    r"""The letters of the options that a prediction names; more than one is a tie.

    The first of these that names any option decides, and all that it names count:

    1. What it claims, anywhere: "the answer is B", "Answer: aspirin", "\boxed{B}", "B is correct".
    2. The whole prediction, if it is one option or a list: "b", "(B) Aspirin", "aspirin", "A or B".
    3. What it or one of its lines begins with, and what it concludes with: "B, because ...",
       "Yes. ...", "... So it must be B."
    4. The whole prediction, if it equals an option's text but for spaces, case and marks.

    Strict: what is part of a longer phrase ("vitamin B", "A patient", "no difference"), denied
    ("not B") or supposed ("if the answer is B") is not named. A letter with another option's text
    ("B. Warfarin") names both, and so do two claims that differ.

    Args:
        prediction: What the agent answered.
        options: Letter -> text; letters are single characters, told apart without case.
    """
    reader = _reader(tuple(options.items()))
    line = reader.line(prediction)
    for step in (reader.claimed, reader.whole, reader.outer):
        if named := step(line):
            return frozenset(named)
    text = _squeezed(prediction)
    return frozenset(key for key, option in options.items() if text and _squeezed(option) == text)


def _tokens(text: str) -> list[str]:
    text = unicodedata.normalize("NFKC", text)
    text = _LATEX.sub(" ", _BOXED.sub(" answer: ", text)).translate(_CLOSING)
    return _TOKEN.findall(_INNER.sub("", _DASH.sub("-", text)))


def _squeezed(text: str) -> str:
    return "".join(t for t in _tokens(text) if t not in _MARKS).lower() or text.strip()


def _pattern(tokens: list[str]) -> str:
    """An option's text: its words, whatever articles and marks stand between them."""
    words = [token.lower() for token in tokens if token not in _MARKS]
    plain = [
        token.lower()
        for token, after in zip(tokens, [*tokens[1:], ""], strict=False)
        if token not in _MARKS | _LOWER
        and not (token is tokens[0] and token in _UPPER and after != ".")
    ]
    parts = (re.split(r"(?<=[^\W_])-", word) for word in plain or words)  # not at a minus sign
    between = rf"(?:-| (?:[^\w @] ){{0,3}}(?:{_ARTICLE})?)"
    return between.join("[ -]?".join(map(re.escape, part)) for part in parts)


class _Reader:
    """Finds one question's options in predictions."""

    def __init__(self, options: tuple[tuple[str, str], ...]) -> None:
        self._keys = {key.upper(): key for key, _ in options}
        self._texts: dict[str, set[str]] = {}  # text -> the options that have it
        for key, option in options:
            if text := _pattern(_tokens(option)):
                self._texts.setdefault(text, set()).add(key)
        # Single letters that are keys and also texts (blood groups) stay letters in the line.
        longer = [text for text in self._texts if text.upper() not in self._keys]
        longer.sort(key=len, reverse=True)
        self._groups = [self._texts[text] for text in longer]
        alternatives = "|".join(f"({text})" for text in longer) or "(?!)()"
        self._reference = re.compile(rf"(?<= )(?:{_ARTICLE})?(?:{alternatives}) ", re.IGNORECASE)
        self._grammar = _grammar("".join(self._keys))

    def line(self, text: str) -> str:
        """The text as words and marks with references, a space before and after each."""
        plain = re.sub("(?: \n)+ ", " \n ", f" {' '.join(_tokens(text.strip()))} ")
        return self._reference.sub(lambda m: f"@{m.lastindex} ", plain)

    def claimed(self, line: str) -> set[str]:
        """What is claimed anywhere in the line."""
        patterns = (self._grammar.claim, self._grammar.verdict)
        found = [match for pattern in patterns for match in pattern.finditer(line)]
        return set().union(*(self._names(m["named"]) for m in found if not m["denied"]))

    def whole(self, line: str) -> set[str]:
        """What a line that holds nothing but options names."""
        return self._names(line) if self._grammar.whole.match(line) else set()

    def outer(self, line: str) -> set[str]:
        """What the line begins and ends with."""
        begun = self._grammar.opening.finditer(line)
        named = set().union(*(self._names(m["named"] or m["later"]) for m in begun))
        end = self._grammar.conclusion.search(line, max(0, len(line) - _ENDING))
        if end:
            sentence = re.split(r"[.!?\n] ", line[: end.start("named")])[-1]
            if not _DENIAL.search(f" {sentence}"):
                named |= self._names(end["named"])
        return named

    def _names(self, part: str) -> set[str]:
        """The options in a part of a line: letters, texts, and letters with a text."""
        named: set[str] = set()
        for match in self._grammar.name.finditer(f" {part}"):
            label, text = match["label"], match["text"].strip()
            by_text = self._by_text(text)
            key = self._keys[label.strip().upper()] if label else None
            if key in by_text:  # two options may share that text
                by_text = set()
            elif text.upper() in self._keys:
                by_text = by_text | {self._keys[text.upper()]}
            named |= by_text | ({key} if key else set())
        return named

    def _by_text(self, token: str) -> set[str]:
        if token.startswith("@"):
            return self._groups[int(token[1:]) - 1]
        return self._texts.get(token.lower(), set())


class _Grammar:
    """The patterns over a line for given option letters."""

    def __init__(self, letters: str) -> None:
        self._letter = f"(?:{'|'.join(map(re.escape, letters))}) "
        self._more = rf"(?:[,;/&+)\n] ){{0,3}}+(?:(?:or|and) )?(?:{_HEDGE})*+"
        self.name = _compiled(
            rf"(?<= )(?:(?P<label>{self._letter})(?:[.):-] )*)?(?P<text>@\d+ |{self._letter})"
        )
        self.whole = _compiled(
            rf" (?:{self._letter}|@\d+ |[.,;:!?)/&+-] |\n |(?:or|and|the) |{_HEDGE}|{_KIND})++$"
        )
        self.claim = _compiled(
            rf"(?<= ){_DENIED}{_CLAIM}(?:{_SURELY}|[:,\n-] )*+(?P<named>{self._listed()})"
        )
        self.verdict = self._verdict()
        self.opening = self._opening()
        # From the end: "So it is B.", "It is B, not A."
        self.conclusion = _compiled(
            rf"(?<= )(?:[.!?:] |{_CONCLUDES})(?:{_SURELY}|[:,] ){{0,4}}(?P<named>{self._listed()})"
            rf"(?:(?:, )?not {self._listed()})?(?:[.!)\n] )*$"
        )

    def _listed(self) -> str:
        """One option, or several that are listed."""
        letter = self._letter
        option = rf"(?:or|and) (?:{_HEDGE})*{_KINDS}(?:{letter}|@\d+ )"
        end = rf"(?=[.,;:!)\n/&+-] |$|{_REASON}|{option})"
        one = (
            rf"{_KINDS}(?:{letter}(?:\. )?(?:[):-] )++@\d+ |{letter}(?:\. )?@\d+ {end}"
            rf"|{letter}(?:{end}|(?=and )){_NO_GENUS}|@\d+ (?:{_KINDS}{letter}(?:\) )?)?{end})"
        )
        return f"{one}(?:{self._more}{one}){{0,{_LISTED}}}+"

    def _verdict(self) -> re.Pattern[str]:
        """An option and what is said of it: "B is the best choice"."""
        one = rf"{_KINDS}(?:{self._letter}(?:[.):-] )*+(?:@\d+ )?|@\d+ )"
        before = (
            r"(?:^ |(?<= )(?:[.,;:!?)\n-]|that|so|hence|thus|therefore|because|and|but|only|both|"
            r"either|think|believe|while|whereas) )"
        )
        listed = f"{one}(?:{self._more}{one}){{0,{_LISTED}}}+"
        return _compiled(f"{before}{_DENIED}(?P<named>{listed}){_VERDICT}")

    def _opening(self) -> re.Pattern[str]:
        """The start of the text, of a line, or of the discussion of one option after another."""
        letter = self._letter
        # A list that goes on in other words ("Aspirin, warfarin were given") is no beginning.
        ended = rf"(?![,/&] (?:(?:or|and) )?(?:{letter}|@\d+ ))"
        subject = r"@\d+ (?=(?:it|they|this|there) )"  # "Yes it does"
        labelled = rf"{_KINDS}{letter}\. @\d+ "
        return _compiled(
            rf"(?:^|\n) (?P<named>(?:{labelled}|{self._listed()}{ended}|{subject}))"
            rf"|(?<= )[.!?;] (?P<later>{_KINDS}{letter})(?=[):] )"  # "A: wrong. B: ..."
        )


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# Compiling takes as long as hundreds of readings; most sets know one or two sets of letters.
_grammar = lru_cache(maxsize=64)(_Grammar)
_reader = lru_cache(maxsize=1024)(_Reader)
