"""Whatever a server answers is read or refused; what each fault is called is in test_http.py."""

import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from retrieval.replicas import ReplicaError
from retrieval.replies import read_native, read_search_r1
from retrieval.types import Hit

SCALARS = st.none() | st.booleans() | st.integers(-2, 4) | st.floats() | st.text(max_size=3)
HITS = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.text("ab", max_size=2) | SCALARS for name in ("id", "title", "text")},
        "score": st.floats(0, 2) | SCALARS,
        "rank": st.integers(1, 3) | SCALARS,
        "document": st.fixed_dictionaries(
            {},
            optional={name: st.text('ab\n"', max_size=4) | SCALARS for name in ("id", "contents")},
        ),
    },
)
ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        name: st.lists(st.lists(HITS | SCALARS, max_size=3) | SCALARS, max_size=2)
        for name in ("answers", "result")
    },
)


@settings(max_examples=400, derandomize=True)
@given(answer=ANSWERS | st.lists(ANSWERS, max_size=1) | SCALARS)
def test_an_answer_is_whole_and_in_order_or_refused(answer):
    for read in (read_native, read_search_r1):
        try:
            (hits,) = read(json.dumps(answer).encode(), 1, 2)
        except ReplicaError:
            continue
        check(hits, 2)


@settings(max_examples=200, derandomize=True)
@given(
    scores=st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from([0.5, 1, 1.0, 2.25])), max_size=8
    ),
    k=st.integers(1, 4),
)
def test_search_r1s_hits_are_put_in_order(scores, k):
    """By a plain loop: the best score of every id, best first, then by id."""
    found = [
        {"document": {"id": name, "contents": f'"{name}"\nx'}, "score": score}
        for name, score in scores
    ]
    (hits,) = read_search_r1(json.dumps({"result": [found]}).encode(), 1, k)
    check(hits, k)
    best = {}
    for name, score in scores:
        best[name] = max(score, best.get(name, score))
    expected = sorted(best.items(), key=lambda item: (-item[1], item[0]))[:k]
    assert [(hit.passage.id, hit.score) for hit in hits] == expected


def check(hits: list[Hit], k: int) -> None:
    assert len(hits) <= k
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    keys = [(-hit.score, hit.passage.id) for hit in hits]
    assert keys == sorted(keys) and len({hit.passage.id for hit in hits}) == len(hits)
    for hit in hits:
        assert type(hit.score) is float and math.isfinite(hit.score)
        texts = (hit.passage.id, hit.passage.title, hit.passage.text)
        assert all(isinstance(text, str) and text.encode() is not None for text in texts)
