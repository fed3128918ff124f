"""The environment's own time per step: parsing, rendering, scoring; no retrieval.

    python -m benchmarks.env_step

An episode of 5 turns (3 searches, 1 invalid turn, 1 answer) over 3 passages of 96 words, which the
search engine hands out ready-made. Prints the median over repetitions, and the fastest and slowest.
"""

import argparse
import statistics
import time
from collections.abc import Sequence

from tqdm import trange

from envs.search_env import SearchEnv
from envs.types import Question
from retrieval.types import Hit, Passage

TARGET_US = 100.0
TURNS = (
    "<think>First I need the author.</think> <search>author of the Salt Atlas</search>",
    "I think it is Vela, but let me look again.",
    "<think>Now the birthplace.</think> <search>birthplace of Oren Vela</search>",
    "<search>Tarmouth region</search>",
    "<think>It is Tarmouth.</think> <answer>Tarmouth</answer>",
)


class Precomputed:
    """A search engine that knows its answer."""

    def __init__(self) -> None:
        sentence = "Tarmouth is a town on the coast; Oren Vela, a novelist, was born there in 1871."
        text = " ".join([sentence] * 6)
        passages = [Passage(str(n), f"Tarmouth {n}", text) for n in range(3)]
        self._hits = [Hit(passage, 3.0 - n, n + 1) for n, passage in enumerate(passages)]

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The same hits for every query."""
        return [self._hits[:k] for _ in queries]


def time_steps(env: SearchEnv, episodes: int) -> float:
    """Microseconds per step over some episodes, resets not counted."""
    elapsed = 0.0
    for _ in range(episodes):
        env.reset()
        start = time.perf_counter()
        for turn in TURNS:
            env.step(turn)
        elapsed += time.perf_counter() - start
    return 1e6 * elapsed / (episodes * len(TURNS))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=500, help="episodes per repetition")
    parser.add_argument("--repetitions", type=int, default=9, help="repetitions; odd")
    args = parser.parse_args()
    question = Question("q", "Where was the author of the Salt Atlas born?", ("Tarmouth",))
    env = SearchEnv(questions=[question], retriever=Precomputed(), reward={"exact_match": 1.0})
    time_steps(env, 20)
    times = [
        time_steps(env, args.episodes)
        for _ in trange(args.repetitions, desc="env.step", leave=False)
    ]
    print(
        f"env.step: {statistics.median(times):.1f} us, median of {args.repetitions} repetitions "
        f"({min(times):.1f} to {max(times):.1f}); target < {TARGET_US:.0f} us"
    )


if __name__ == "__main__":
    main()
