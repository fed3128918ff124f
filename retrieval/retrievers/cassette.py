r"""Answers on file: recorded from an engine, replayed bit by bit without index, Java or network.

    eval.py ... --retriever.name cassette --retriever.path paper.jsonl --retriever.mode auto \
        --retriever.of lucene
    eval.py ... --retriever.name cassette --retriever.path paper.jsonl

The file is JSON Lines, only ever appended to, so that a killed run loses at most its last line:

    {"format": "retrieval-cassette", "version": 1, "fingerprint": "sha256:...", "engine": {...}}
    {"passage": {"id": "p1", "title": "...", "text": "..."}}
    {"query": "who ...", "k": 3, "hits": [["p1", 12.25], ...]}

A passage stands there once, before the first answer that holds it. Scores are written with as many
digits as bring the same float back. A query has an answer for each k that it was recorded with; one
for fewer passages is cut from the answer with the next larger k. That is what the engine would
have said if its answers are prefixes of each other: true for every engine here, except `hybrid` and
`rerank` beyond their `depth`.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..compose import describe, fingerprint_of, open_engine, spec_needs_corpus
from ..corpus import Corpus
from ..errors import InputError, RetrievalError
from ..ranking import check_k
from ..recording import Header, Recording
from ..types import Hit

NEEDS_CORPUS = False
MODES = ("replay", "record", "auto")


@dataclass(frozen=True, slots=True)
class Config:
    """Settings.

    Attributes:
        path: The file.
        mode: "replay" (write nothing), "auto" (record what the file lacks) or "record" (ask and
            record every query, whatever the file holds).
        of: The engine to record from, a name or an index folder. In "replay" it answers what the
            file lacks; without it such a query is an error.
    """

    path: str = ""
    mode: str = "replay"
    of: str = ""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise InputError(f"mode is {self.mode!r}; choose one of {', '.join(MODES)}")
        if self.mode != "replay" and not self.of:
            raise InputError(f"of is empty: to {self.mode}, name the engine to record from")


def needs_corpus(config: Config) -> bool:
    """Whether the engine behind must be given passages."""
    return bool(config.of) and spec_needs_corpus(config.of)


def build(config: Config, corpus: Corpus | None) -> "Cassette":
    """Read the file, or begin it; build or open the engine behind.

    Raises:
        InputError: No file to replay, one that is damaged, of another corpus or another engine.
    """
    if not config.path:
        raise InputError("path is missing: give the file to replay or to record to")
    return Cassette(config, corpus)


class Cassette:
    """A Retriever; threads may share it: one lock lets them in one by one.

    Attributes:
        fingerprint: Of the corpus that the answers are from.
        misses: Queries that the file had no answer for.
    """

    def __init__(self, config: Config, corpus: Corpus | None) -> None:
        self._config = config
        self._behind = open_engine(config.of, corpus) if config.of else None
        expected = None
        if self._behind is not None:
            expected = Header(fingerprint_of(self._behind, corpus), describe(config.of))
        elif corpus is not None:
            expected = Header(corpus.fingerprint, None)
        self._recording = Recording(Path(config.path), expected, config.mode != "replay")
        self.fingerprint = self._recording.header.fingerprint
        self.misses = 0
        self._lock = threading.Lock()

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever`.

        Raises:
            RetrievalError: A query is not on file and there is no engine behind; or that failed.
        """
        check_k(k)
        with self._lock:
            distinct = list(dict.fromkeys(queries))
            found = {query: self._recording.find(query, k) for query in distinct}
            missing = [query for query in distinct if found[query] is None]
            self.misses += len(missing)
            asked = distinct if self._config.mode == "record" else missing
            answers = {query: hits for query, hits in found.items() if hits is not None}
            if asked:
                answers |= self._ask(asked, k)
        return [list(answers[query]) for query in queries]

    def _ask(self, queries: list[str], k: int) -> dict[str, list[Hit]]:
        """Ask the engine behind, and record unless replaying."""
        if self._behind is None:
            raise RetrievalError(
                f"{self._config.path}: no answer on file to {len(queries)} queries at k = {k}, "
                f"the first of them {queries[0]!r:.80}; record them with mode=auto and of=ENGINE"
            )
        hits = self._behind.search(queries, k)
        if len(hits) != len(queries):
            raise RetrievalError(
                f"{self._config.of}: {len(hits)} answers to {len(queries)} queries"
            )
        answers = dict(zip(queries, hits, strict=True))
        if self._config.mode != "replay":
            self._recording.add(answers, k)
        return answers
