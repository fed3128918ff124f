"""How often an index finds a gold passage, by set of questions.

    python -m benchmarks.recall --index indexes/wiki-bm25s indexes/wiki-dense \
        --questions ../shared/data/nq/nq_open_with_corpus.jsonl

Only questions are asked all of whose gold passages every index holds. A question counts as found
if one of its gold passages is among the k best. Prints a Markdown table: gold@3 / gold@10.
"""

import argparse
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from retrieval.index import open_index

BATCH = 64


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--index", type=Path, nargs="+", required=True)
    parser.add_argument("--questions", type=Path, nargs="+", required=True)
    parser.add_argument("--limit", type=int, default=500, help="Questions of each set.")
    args = parser.parse_args()
    opened = {folder: open_index(folder) for folder in args.index}
    held = set.intersection(*({p.id for p in one.corpus.passages} for one in opened.values()))
    sets = _sets(args.questions, held, args.limit)
    print(f"| index | {' | '.join(f'{name} ({len(rows)})' for name, rows in sets.items())} |")
    print(f"|---|{'---|' * len(sets)}", flush=True)
    for folder, index in opened.items():
        cells = []
        for name, rows in sets.items():
            hits: list[list[bool]] = []
            for start in tqdm(range(0, len(rows), BATCH), desc=f"{folder.name} {name}"):
                batch = rows[start : start + BATCH]
                answers = index.retriever.search([row["question"] for row in batch], 10)
                hits += [
                    [hit.passage.id in row["meta"]["gold_ids"] for hit in answer]
                    for row, answer in zip(batch, answers, strict=True)
                ]
            at = [sum(any(found[:k]) for found in hits) / len(hits) for k in (3, 10)]
            cells.append(f"{at[0]:.3f} / {at[1]:.3f}")
        print(f"| `{folder.name}` | {' | '.join(cells)} |", flush=True)


def _sets(files: list[Path], held: set[str], limit: int) -> dict[str, list[dict[str, Any]]]:
    """Data set -> questions, drawn with seed 0."""
    sets: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for file in files:
        for line in file.open(encoding="utf-8"):
            row = json.loads(line)
            gold = row["meta"].get("gold_ids")
            if gold and held.issuperset(gold):
                sets[row["dataset"]].append(row)
    draw = random.Random(0)
    return {name: draw.sample(rows, min(limit, len(rows))) for name, rows in sets.items()}


if __name__ == "__main__":
    main()
