"""Results folders as eval.py leaves them: real questions, real searches, an agent of many moods."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from agents.evaluation import summarize
from agents.metrics import write_json, write_lines
from agents.predictions import Played, Prediction, to_prediction
from envs.actions import count_words
from envs.datasets import atlas, formulary
from envs.limits import EnvLimits
from envs.search_env import SearchEnv
from envs.types import Dataset, Question
from retrieval.cache import CachedRetriever
from retrieval.corpus import Corpus
from retrieval.errors import RetrievalError
from retrieval.retrievers import bm25s
from tests.envs.engines import Down

# What a hostile model or corpus writes: each of these ends or opens something in careless HTML.
HOSTILE = (
    "<script>window.ran = 1; alert(1)</script><img src=x: onerror='window.ran = 1'>"
    "</script><!-- <script>\u2028]]>&lt;b&gt;"
)
MOODS = 7


def _turns(dataset: Dataset, question: Question, mood: int) -> Iterator[str]:
    """The expert, unless the mood is another."""
    assert dataset.demonstrate is not None
    *searches, answer = dataset.demonstrate(question, mood == 1)
    if mood == 2:  # asks for something else
        yield "<think>I know where to look.</think>\n<search>the weather in spring</search>"
        yield f"<think>Not there. {HOSTILE}</think>\n<answer>{HOSTILE}</answer>"
    elif mood == 3:  # writes no tags at all
        yield from [f"Let me think about {HOSTILE}"] * 9
    elif mood == 4:  # finds it, and answers with something else
        yield from searches
        yield "<think>I am not sure.</think> <answer>none of these</answer>"
    elif mood == 6:
        yield "<think>Nobody can know that.</think> <answer>unknown</answer>"
    else:
        yield from searches
        yield answer


def _play(dataset: Dataset, question: Question, mood: int) -> Prediction:
    # Mood 5: the engine is down.
    retriever = CachedRetriever(Down()) if mood == 5 else _engine(dataset)
    env = SearchEnv(
        questions=[question],
        retriever=retriever,
        reward={"exact_match": 1.0},
        limits=EnvLimits(top_k=3, max_turns=5, max_observation_tokens=200),
    )
    env.reset(options={"question": replace(question, may_abstain=mood == 6)})
    tokens, turns = 0, _turns(dataset, question, mood)
    while env.episode.stop_reason is None:
        text = next(turns)
        tokens += count_words(text)
        with suppress(RetrievalError):  # the environment has recorded it
            env.step(text)
    return to_prediction(Played(env.episode, tokens))


@cache
def _worlds() -> tuple[Dataset, ...]:
    return (
        atlas.build(atlas.Config(people=30, limit=60)),
        formulary.build(formulary.Config(drugs=20, limit=20)),
    )


def _engine(dataset: Dataset) -> CachedRetriever:
    return _engines()[_worlds().index(dataset)]


@cache
def _engines() -> list[CachedRetriever]:
    corpora = [Corpus.of(world.passages or ()) for world in _worlds()]
    return [CachedRetriever(bm25s.build(bm25s.Config(), corpus)) for corpus in corpora]


@cache
def predictions() -> tuple[Prediction, ...]:
    """Both worlds, every outcome but "wrong"."""
    asked = [(world, question) for world in _worlds() for question in world.questions]
    return tuple(_play(*pair, number % MOODS) for number, pair in enumerate(asked))


def write(folder: Path, rows: Sequence[Prediction], **summary: Any) -> Path:
    """A results folder; `summary` adds to its summary."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text("model: {name: tiny}\n")
    write_lines(folder / "predictions.jsonl", [row.to_json() for row in rows])
    known = {"agent": "tiny", "retriever": "bm25s", "command": "python eval.py --agent tiny"}
    write_json(folder / "summary.json", summarize(rows) | known | summary)
    return folder


def data_of(page: str) -> Any:
    """What a report's script reads, cut out of the page as a browser would."""
    block = page.split('data-packing="none">', 1)[1].split("</script", 1)[0]
    return json.loads(block)
