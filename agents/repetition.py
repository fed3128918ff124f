"""How much a policy repeats itself: the first sign of a collapse that rewards do not show yet."""

from collections.abc import Iterable, Sequence

N = 4  # tokens


def repeat_rate(turns: Iterable[Sequence[int]]) -> float:
    """The share of the turns' n-grams that stood in the same turn before.

    Args:
        turns: Sampled ids, turn by turn; those of fewer than 4 tokens have no n-gram.

    Returns:
        From 0 (no turn repeats anything, or none has an n-gram) to almost 1.
    """
    total = repeated = 0
    for ids in turns:
        count = max(0, len(ids) - N + 1)
        total += count
        repeated += count - len({tuple(ids[i : i + N]) for i in range(count)})
    return repeated / total if total else 0.0
