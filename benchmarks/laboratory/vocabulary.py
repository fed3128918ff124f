"""The laboratory's tokenizer: whole words of the world's sentences, syllables for its names.

A name is spelt in syllables that other names share, so that one never seen in training can still
be copied from a passage; everything else is one token a word, so that episodes are short.
"""

import re
from collections import Counter
from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from agents.tiny import CHAT_TEMPLATE
from envs.worlds.names import ENDS, ONSETS, RHYMES

SPECIAL = ("<|im_end|>", "<|im_start|>")
# A tag, a word with the space before it, two digits, or a single character.
PIECES = r"</?[a-z]+>| ?[A-Za-z]+|[0-9]{1,2}|[^A-Za-z0-9]"
MIN_COUNT = 20  # a word that is rarer is spelt out
ROLES = ("system", "user", "assistant")

_SYLLABLES = sorted({onset + rhyme for onset in ONSETS for rhyme in (*RHYMES, *ENDS)})
_CAPITALS = [syllable.capitalize() for syllable in _SYLLABLES]
_NAME = re.compile(f" ?(?:{'|'.join(_CAPITALS)})(?:{'|'.join(_SYLLABLES)})*")


def build_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """The tokenizer of a world, from all that will be read or written in it."""
    counts = Counter(piece for text in texts for piece in re.findall(PIECES, text))
    words = [p for p, n in counts.most_common() if n >= MIN_COUNT and not _NAME.fullmatch(p)]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    # A name's word begins with its space: what follows the space can then be copied from where the
    # word before it stood last.
    spaced = [f" {syllable}" for syllable in _CAPITALS]
    whole = [*ROLES, *words, *_SYLLABLES, *_CAPITALS, *spaced]
    pieces = dict.fromkeys([*SPECIAL, *alphabet, *map(_bytes, whole)])
    # Equal scores: the Viterbi path takes the fewest pieces.
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def _bytes(text: str) -> str:
    """As the byte-level pre-tokenizer writes it."""
    return text.replace(" ", "Ġ").replace("\n", "Ċ")
