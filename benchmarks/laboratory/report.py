"""The laboratory's numbers: one CSV of all steps, a table, and figures."""

import csv
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from .runs import Run
from .variants import CONTRASTS, REGIMES, VARIANTS

# Name of the metric in metrics.jsonl -> its column in the CSV.
METRICS = {
    "em": "em",
    "searches_mean": "searches",
    "grad_norm": "grad_norm",
    "clip_fraction": "clip_fraction",
    "kl_old": "kl_old",
    "clip_norm": "clip_norm",
    "grad_scale": "grad_scale",
    "invalid_rate": "invalid_rate",
}
# What the last row of a run adds: scores on held-out questions at the start and the end, the latter
# also by number of hops.
HELD_OUT = ("held_out_start", "held_out", "held_out_1", "held_out_2", "held_out_3")
LOGARITHMIC = {"grad_norm", "kl_old", "clip_norm"}
SMOOTH = 3  # steps whose mean stands for "now"
LATE = 5  # steps at the end, whose mean is less noisy than the last one
# 97.5 % quantile of Student's t at so many degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306}
COLLAPSE = 0.5  # a run has collapsed if it ends below this share of its held-out EM at the start

Rows = list[dict[str, str]]


def read(file: Path) -> Rows:
    """The rows of a CSV that `collect` wrote; none without it."""
    if not file.exists():
        return []
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def key(row: Mapping[str, str]) -> tuple[str, str, str]:
    """The run that a row belongs to."""
    return row["regime"], row["variant"], row["seed"]


def collect(runs: Iterable[Run], file: Path) -> Rows:
    """Add to the CSV: one row per step; the last row of a run has its held-out scores.

    Runs that only the CSV knows stay in it: their folders may be gone.
    """
    columns = ["regime", "variant", "seed", "step", *METRICS.values(), *HELD_OUT]
    rows = [row for run in runs if run.done for row in _rows(run)]
    found = {key(row) for row in rows}
    rows += [row for row in read(file) if key(row) not in found]
    order = {name: place for place, name in enumerate([*REGIMES, *VARIANTS])}
    rows.sort(key=lambda row: (order[row["regime"]], order[row["variant"]], int(row["seed"])))
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return rows


def _rows(run: Run) -> Rows:
    with (run.folder / "metrics.jsonl").open(encoding="utf-8") as lines:
        steps = [json.loads(line) for line in lines]
    rows = [
        {"regime": run.regime, "variant": run.variant, "seed": str(run.seed)}
        | {"step": str(step["step"])}
        | {column: _short(step[name]) for name, column in METRICS.items()}
        for step in steps
    ]
    summary = json.loads((run.folder / "summary.json").read_text(encoding="utf-8"))
    scores = {"held_out_start": summary["em_before"], "held_out": summary["em_after"]}
    rows[-1] |= {name: _short(score) for name, score in (scores | _by_hops(run)).items()}
    return rows


def _by_hops(run: Run) -> dict[str, float]:
    """The final held-out EM over the questions of each number of hops ("atlas-2hop")."""
    scores: defaultdict[str, list[float]] = defaultdict(list)
    with (run.folder / "evaluation" / "after.jsonl").open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            hops = row["dataset"].removesuffix("hop").rpartition("-")[2]
            scores[f"held_out_{hops}"].append(row["metrics"]["em"])
    return {name: float(np.mean(values)) for name, values in scores.items()}


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def table(rows: Rows) -> str:
    """A Markdown table per regime: means over seeds."""
    lines = []
    for regime in dict.fromkeys(row["regime"] for row in rows):
        lines += [
            f"### {regime}",
            "",
            "| variant | seeds | held-out EM, start | end | of 1, 2, 3 hops | last | best | drop | "
            "collapsed | searches |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        of_regime = [row for row in rows if row["regime"] == regime]
        for variant in dict.fromkeys(row["variant"] for row in of_regime):
            lines.append(_line(variant, [r for r in of_regime if r["variant"] == variant]))
        lines.append("")
    return "\n".join(lines)


def _line(variant: str, rows: Rows) -> str:
    curves = _curves(rows, "em")
    now = [np.convolve(curve, np.ones(SMOOTH) / SMOOTH, "valid") for curve in curves]
    last, best = np.array([c[-1] for c in now]), np.array([c.max() for c in now])
    ends = [row for row in rows if row.get("held_out")]
    held_out = np.array([float(row["held_out"]) for row in ends])
    start = np.array([float(row["held_out_start"]) for row in ends])
    hops = ", ".join(f"{np.mean([float(row[name]) for row in ends]):.2f}" for name in HELD_OUT[2:])
    searches = np.array([curve[-SMOOTH:].mean() for curve in _curves(rows, "searches")])
    spread = held_out.std(ddof=1) if len(held_out) > 1 else 0.0
    return (
        f"| `{variant}` | {len(curves)} | {start.mean():.3f} | "
        f"{held_out.mean():.3f} ± {spread:.3f} | "
        f"{hops} | {last.mean():.3f} | {best.mean():.3f} | {(best - last).mean():.3f} | "
        f"{np.mean(held_out < COLLAPSE * start):.2f} | {searches.mean():.2f} |"
    )


def contrasts(rows: Rows) -> str:
    """Differences between variants, seed by seed, in Markdown.

    A seed gives both the same questions in the same order. Runs whose pupils scored differently
    before training (a pupil made again on another CPU) are not paired. Intervals are Student's over
    seeds.
    """
    lines = []
    regimes = list(dict.fromkeys(row["regime"] for row in rows))
    for title, pairs in CONTRASTS.items():
        lines += [
            f"### {title}",
            "",
            "| regime | variant | against | seeds | held-out EM | EM, last 5 steps | searches |",
            "|---|---|---|---|---|---|---|",
        ]
        for regime in regimes:
            of_regime = [row for row in rows if row["regime"] == regime]
            lines += [line for pair in pairs if (line := _contrast(regime, of_regime, *pair))]
        lines.append("")
    return "\n".join(lines)


def _contrast(regime: str, rows: Rows, name: str, other: str) -> str | None:
    ours, theirs = (_ends([row for row in rows if row["variant"] == v]) for v in (name, other))
    seeds = sorted(ours.keys() & theirs.keys())
    if len(seeds) < 2:
        return None
    differences = np.array([ours[seed] for seed in seeds]) - [theirs[seed] for seed in seeds]
    half = STUDENT[len(seeds) - 1] * differences.std(axis=0, ddof=1) / len(seeds) ** 0.5
    cells = [
        f"{mean:+.3f} [{mean - width:+.3f}, {mean + width:+.3f}]"
        for mean, width in zip(differences.mean(axis=0), half, strict=True)
    ]
    return f"| {regime} | `{name}` | `{other}` | {len(seeds)} | {' | '.join(cells)} |"


def _ends(rows: Rows) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Seed and score of the pupil -> held-out EM, and EM and searches over the last steps."""
    by_seed: defaultdict[str, Rows] = defaultdict(list)
    for row in rows:
        by_seed[row["seed"]].append(row)
    return {
        (seed, own[-1]["held_out_start"]): (
            float(own[-1]["held_out"]),
            float(np.mean([float(row["em"]) for row in own[-LATE:]])),
            float(np.mean([float(row["searches"]) for row in own[-LATE:]])),
        )
        for seed, own in by_seed.items()
    }


def _curves(rows: Rows, column: str) -> list[np.ndarray]:
    """One curve over steps per seed; missing values are NaN."""
    by_seed: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_seed[row["seed"]].append(float(row[column]) if row[column] else np.nan)
    return [np.array(curve) for curve in by_seed.values()]


def _by_step(rows: Rows, column: str) -> tuple[np.ndarray, np.ndarray]:
    """The steps (T,), and the values (seeds, T) at them; NaN where a seed has none.

    A step that the guard undid because nothing could be sampled has no row.
    """
    steps = sorted({int(row["step"]) for row in rows})
    seeds = list(dict.fromkeys(row["seed"] for row in rows))
    values = np.full((len(seeds), len(steps)), np.nan)
    for row in rows:
        if row[column]:
            values[seeds.index(row["seed"]), steps.index(int(row["step"]))] = float(row[column])
    return np.array(steps), values


def figure(rows: Rows, variants: Sequence[str], file: Path) -> None:
    """All metrics over steps, mean and range over seeds, one column per regime."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    regimes = list(dict.fromkeys(row["regime"] for row in rows))
    shown = [row for row in rows if row["variant"] in variants]
    named = list(METRICS.values())[:-1]
    columns = [name for name in named if any(row.get(name) for row in shown)]
    size = (5 * len(regimes), 2.2 * len(columns))
    drawing, axes = pyplot.subplots(len(columns), len(regimes), figsize=size, squeeze=False)
    for place, regime in enumerate(regimes):
        for level, column in enumerate(columns):
            axis = axes[level][place]
            for number, variant in enumerate(variants):
                color = f"C{number}"  # the same in every axis, whichever metrics a variant has
                chosen = [r for r in rows if (r["regime"], r["variant"]) == (regime, variant)]
                steps, curves = _by_step(chosen, column)
                measured = ~np.isnan(curves).all(axis=0)  # in a step that trained on something
                if not measured.any():
                    continue
                mean, low, high = (np.full(len(steps), np.nan) for _ in range(3))
                mean[measured] = np.nanmean(curves[:, measured], axis=0)
                low[measured] = np.nanmin(curves[:, measured], axis=0)
                high[measured] = np.nanmax(curves[:, measured], axis=0)
                axis.plot(steps, mean, label=variant, color=color, linewidth=1)
                axis.fill_between(steps, low, high, color=color, alpha=0.12)
            if column in LOGARITHMIC:
                axis.set_yscale("log")
            axis.set_ylabel(column)
        axes[0][place].set_title(regime)
        axes[-1][place].set_xlabel("step")
    axes[0][-1].legend(fontsize=6)
    drawing.tight_layout()
    drawing.savefig(file, dpi=80)
    pyplot.close(drawing)
