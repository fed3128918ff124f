"""Which checkpoint is good, and which steps the present weights descend from."""

import json

from agents.lineage import Lineage


def go(lineage: Lineage, first: int, last: int, every: int) -> None:
    """Steps without an alarm, some of them saved."""
    for step in range(first, last + 1):
        lineage.passed(step)
        if step % every == 0:
            lineage.saved(step)


def test_a_checkpoint_is_good_once_a_window_has_passed() -> None:
    lineage = Lineage(window=3)
    seen = []
    for step in range(1, 11):
        go(lineage, step, step, every=2)
        seen.append((step, lineage.good, sorted(lineage.needed)))
    assert seen == [
        (1, 0, [0]),
        (2, 0, [0, 2]),
        (3, 0, [0, 2]),
        (4, 0, [0, 2]),
        (5, 2, [2]),  # 2 + 3
        (6, 2, [2, 6]),
        (7, 2, [2, 6]),
        (8, 2, [2, 6]),
        (9, 6, [6]),
        (10, 6, [6, 10]),
    ]


def test_a_rollback_undoes_what_followed_the_good_one() -> None:
    lineage = Lineage(window=2)
    go(lineage, 1, 6, every=2)
    assert (lineage.good, sorted(lineage.needed)) == (4, [4, 6])
    lineage.rolled_back(7, "kl_old is 9, above 1")
    assert [step for step in range(10) if lineage.descends_from(step)] == [0, 1, 2, 3, 4, 8, 9]
    # The checkpoint of step 6 is no candidate any more; that of step 7 holds the good weights.
    lineage.saved(7)
    assert (lineage.good, sorted(lineage.needed)) == (4, [4, 7])
    go(lineage, 8, 9, every=2)
    assert (lineage.good, sorted(lineage.needed)) == (7, [7])
    lineage.rolled_back(10, "again")
    # The weights of step 7 are those of step 4.
    assert [step for step in range(13) if lineage.descends_from(step)] == [0, 1, 2, 3, 4, 11, 12]


def test_an_alarm_right_after_a_rollback_goes_back_to_the_same() -> None:
    lineage = Lineage(window=2)
    go(lineage, 1, 6, every=2)
    for step in (7, 8):
        lineage.rolled_back(step, "")
        lineage.saved(step)
    assert [(r.step, r.restored) for r in lineage.rollbacks] == [(7, 4), (8, 4)]


def test_its_state_comes_back_through_json() -> None:
    lineage = Lineage(window=2)
    go(lineage, 1, 6, every=2)
    lineage.rolled_back(7, "é")
    lineage.saved(7)
    other = Lineage(window=2)
    state = json.loads(json.dumps(lineage.state()))
    other.load_state(state, existing=[0, 2, 4, 6, 7], step=7)
    assert other.state() == lineage.state()
    go(other, 8, 9, every=2)
    assert other.good == 7


def test_a_checkpoint_that_is_gone_is_not_gone_back_to() -> None:
    lineage = Lineage(window=2)
    go(lineage, 1, 6, every=2)
    other = Lineage(window=2)
    other.load_state(lineage.state(), existing=[4], step=4)
    assert (other.good, other.needed) == (4, {4})
