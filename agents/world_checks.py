"""What the doctor checks of the world around the policy: its reward and its search engine."""

import time
from collections.abc import Sequence
from contextlib import suppress

from envs.types import Dataset, Episode, Question, StopReason
from retrieval.cache import CachedRetriever
from retrieval.errors import RetrievalError
from retrieval.types import Hit

from .assembly import Parts
from .finding import Finding
from .playing import PlayOptions, make_env_of
from .predictions import evidence_recall
from .rollout import failed

QUESTIONS = 8
# What a term pays for a right episode; `evidence` pays the recall, and other terms are not known.
_FULL = {"exact_match": 1.0, "f1": 1.0, "choice": 1.0, "format": 0.0}
_NONSENSE = "qqxqq"


def check_reward(parts: Parts) -> Finding:
    """Right episodes are paid in full, wrong and empty answers nothing."""
    paid, unpaid = [], []
    for question in parts.questions[:QUESTIONS]:
        right = _right(parts, question)
        if right.answer is None:
            return Finding(
                f"question {question.id}: the expert's {len(right.steps)} turns do not reach its "
                "answer",
                f"env.max_turns is {parts.config.env.max_turns}: raise it, or ask questions of "
                "fewer hops",
            )
        answers = {text: _play(parts, question, [text]) for text in _bad_turns(question)}
        expected = _full(parts, right)
        if expected is not None and abs(right.reward - expected) > 1e-6:
            return Finding(
                f"question {question.id}: a right episode is paid {right.reward:g}, not "
                f"{expected:g}",
                f"env.reward: check the terms {_terms(parts)} and the question's answers",
            )
        for text, episode in answers.items():
            if episode.reward > 0 or episode.reward >= right.reward:
                return Finding(
                    f"question {question.id}: {text!r} is paid {episode.reward:g}, a right episode "
                    f"{right.reward:g}",
                    f"env.reward: {_terms(parts)} must pay right answers more, and wrong ones "
                    "nothing",
                )
        paid.append(right.reward)
        unpaid += [episode.reward for episode in answers.values()]
    return Finding(
        f"{len(paid)} right episodes are paid {_range(paid)}, wrong and empty answers "
        f"{_range(unpaid)}"
    )


def check_retriever(parts: Parts) -> Finding:
    """It answers, finds what questions were made from, takes an empty query, and may fail."""
    engine, k = parts.rollout.retriever, parts.config.env.top_k
    questions = parts.questions[:QUESTIONS]
    began = time.perf_counter()
    answers = engine.search([question.text for question in questions], k)
    milliseconds = (time.perf_counter() - began) * 1000
    for hits in [*answers, *engine.search([""], k)]:
        if len(hits) > k or len({hit.passage.id for hit in hits}) < len(hits):
            return Finding(
                f"an answer to k = {k} has {len(hits)} passages, or one twice",
                "retriever.name: the engine breaks its contract (retrieval/types.py); mend it",
            )
    if not any(answers):
        return Finding(
            f"none of {len(questions)} questions finds a passage",
            "retriever.corpus: give the corpus that the questions were made from",
        )
    known = [(q, hits) for q, hits in zip(questions, answers, strict=True) if _evidence(q)]
    found = sum(_has_evidence(question, hits) for question, hits in known)
    if known and not found and not _found_by_title(parts, [question for question, _ in known]):
        return Finding(
            f"the evidence of none of {len(known)} questions is found, by question or by title",
            "retriever.corpus: give the corpus that the questions were made from",
        )
    if not _failure_is_flagged(parts):
        return Finding(
            "an episode whose search failed is scored",
            "envs/search_env.py: a RetrievalError must end the episode as retrieval_error",
        )
    evidence = f"evidence found for {found} of {len(known)}, " if known else ""
    return Finding(
        f"{len(questions)} questions as queries: {evidence}{milliseconds:.1f} ms in one batch; an "
        "empty query is answered, a failed search is flagged"
    )


def _right(parts: Parts, question: Question) -> Episode:
    """The expert's episode; the gold answer alone where its search fails."""
    episode = _play(parts, question, parts.demonstrate(question, False))
    if failed(episode):
        return _play(parts, question, [f"<answer> {question.answers[0]} </answer>"])
    return episode


def _bad_turns(question: Question) -> list[str]:
    wrong = _NONSENSE
    if question.options:
        wrong = next((name for name in question.options if name not in question.answers), wrong)
    return [f"<answer> {wrong} </answer>", "<answer></answer>"]


def _play(parts: Parts, question: Question, texts: Sequence[str]) -> Episode:
    env = parts.rollout.make_env()
    env.reset(options={"question": question})
    with suppress(RetrievalError):  # the environment has recorded it
        for text in texts:
            env.step(text)
            if env.episode.stop_reason is not None:
                break
    return env.episode


def _full(parts: Parts, episode: Episode) -> float | None:
    """What a right episode is to be paid; None where a term is not known here."""
    full = {**_FULL, "evidence": evidence_recall(episode) or 0.0}
    weights = parts.config.env.reward
    if not weights.keys() <= full.keys():
        return None
    return sum(weight * full[name] for name, weight in weights.items())


def _terms(parts: Parts) -> str:
    return ", ".join(parts.config.env.reward)


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _evidence(question: Question) -> frozenset[str]:
    return frozenset(question.supporting_titles or question.source_ids)


def _has_evidence(question: Question, hits: Sequence[Hit]) -> bool:
    shown = {name for hit in hits for name in (hit.passage.title, hit.passage.id)}
    return bool(_evidence(question) & shown)


def _found_by_title(parts: Parts, questions: Sequence[Question]) -> bool:
    """Whether any evidence is found when its own title is the query."""
    asked = [(question, title) for question in questions for title in question.supporting_titles]
    answers = parts.rollout.retriever.search([title for _, title in asked], parts.config.env.top_k)
    return any(_has_evidence(q, hits) for (q, _), hits in zip(asked, answers, strict=True))


class _Broken:
    """A search engine that fails as a server does."""

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        raise TimeoutError("the doctor's own")


def _failure_is_flagged(parts: Parts) -> bool:
    """T11, in the environment of the run: a failed search ends the episode, and nothing is paid."""
    config = parts.config
    play = PlayOptions(config.env, config.prompt, config.engine)
    question = parts.questions[0]
    # A run of one turn never searches.
    if config.env.max_turns < 2:
        return True
    env = make_env_of(Dataset([question]), CachedRetriever(_Broken()), play)()
    env.reset(options={"question": question})
    try:
        env.step("<search> x </search>")
    except RetrievalError:
        episode = env.episode
        return episode.stop_reason is StopReason.RETRIEVAL_ERROR and episode.reward == 0
    return False
