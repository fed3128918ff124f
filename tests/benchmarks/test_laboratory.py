"""The laboratory's bookkeeping: which runs there are, what goes on, what the table says."""

import json
from pathlib import Path

import numpy as np
import pytest
from jsonargparse import ArgumentParser

from agents import command_line
from agents.config import TRAIN_LAYOUT
from benchmarks.laboratory import report, runs
from benchmarks.laboratory.variants import CONTRASTS, REGIMES, VARIANTS


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("regime", REGIMES)
def test_every_cell_is_a_valid_configuration(variant: str, regime: str, tmp_path: Path) -> None:
    if regime == "on-policy" and VARIANTS[variant].needs_clip:
        assert runs.plan(tmp_path, [regime], [variant], [3]) == []
        return
    (run,) = runs.plan(tmp_path, [regime], [variant], [3])
    flags = run.flags(["--run.steps=2"])
    values, _ = command_line.parse(ArgumentParser(), TRAIN_LAYOUT, flags, {})
    assert values["run"].seed == 3 and values["run"].steps == 2
    assert values["algorithm"].name == VARIANTS[variant].flags["algorithm.name"]
    assert str(values["optimizer"].epochs) == REGIMES[regime]["optimizer.epochs"]


def test_an_early_stop_leaves_every_variant_with_as_many_seeds(tmp_path: Path) -> None:
    planned = runs.plan(tmp_path, REGIMES, ["ppo", "grpo"], range(3))
    assert [run.seed for run in planned] == [0] * 4 + [1] * 4 + [2] * 4


def fake(run: runs.Run, ems: list[float], after: float, before: float = 0.3) -> None:
    """What a run of that many steps leaves behind."""
    run.folder.mkdir(parents=True)
    (run.folder / "config.yaml").write_text("")
    with (run.folder / "metrics.jsonl").open("w") as out:
        for step, em in enumerate(ems, start=1):
            line = dict.fromkeys(report.METRICS, 0.5) | {"step": step, "em": em, "clip_norm": None}
            out.write(json.dumps(line) + "\n")
    (run.folder / "summary.json").write_text(json.dumps({"em_before": before, "em_after": after}))
    # One-hop questions are half right, two-hop ones as `after` says, three-hop ones wrong.
    scores = [("1", 1.0), ("1", 0.0), ("2", after), ("3", 0.0)]
    rows = [{"dataset": f"atlas-{hops}hop", "metrics": {"em": em}} for hops, em in scores]
    (run.folder / "evaluation").mkdir()
    (run.folder / "evaluation" / "after.jsonl").write_text("\n".join(map(json.dumps, rows)))


def test_what_is_done_is_not_run_again_and_what_began_goes_on(tmp_path: Path) -> None:
    first, second = runs.plan(tmp_path, ["on-policy"], ["grpo"], range(2))
    fake(first, [0.5], 0.5)
    assert first.done and not second.done
    second.folder.mkdir(parents=True)
    (second.folder / "config.yaml").write_text("")
    assert second.flags(["--x=1"]) == ["--resume", str(second.folder)]
    assert runs.execute([first], workers=1, extra=[]) == []


def test_the_csv_and_the_table_by_hand(tmp_path: Path) -> None:
    planned = runs.plan(tmp_path, ["off-policy"], ["ppo"], range(2))
    # "Now" is a mean of three steps. Seed 0 ends at its best, seed 1 collapses.
    fake(planned[0], [0.3, 0.3, 0.3, 0.6, 0.6, 0.6], 0.7)
    fake(planned[1], [0.6, 0.6, 0.6, 0.0, 0.0, 0.3], 0.1)
    rows = report.collect(planned, tmp_path / "stability.csv")
    assert len(rows) == 12
    lines = (tmp_path / "stability.csv").read_text().splitlines()
    assert lines[0].startswith("regime,variant,seed,step,em,searches,grad_norm")
    assert lines[1] == "off-policy,ppo,0,1,0.3,0.5,0.5,0.5,0.5,,0.5,0.5,,,,,"
    assert lines[6].endswith(",0.3,0.7,0.5,0.7,0")
    # Held out 0.7 and 0.1: mean 0.4, sd 0.424. Last 0.6 and 0.1; best 0.6 and 0.6: drop 0.25.
    line = "| `ppo` | 2 | 0.300 | 0.400 ± 0.424 | 0.50, 0.40, 0.00 | "
    line += "0.350 | 0.600 | 0.250 | 0.50 | 0.50 |"
    assert line in report.table(rows)
    report.figure(rows, ["ppo"], tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_a_step_without_a_row_is_a_gap_of_its_seed_alone(tmp_path: Path) -> None:
    planned = runs.plan(tmp_path, ["off-policy"], ["ppo"], range(2))
    fake(planned[0], [0.3, 0.3, 0.3], 0.7)
    fake(planned[1], [0.6, 0.5, 0.4], 0.1)
    rows = report.collect(planned, tmp_path / "stability.csv")
    del rows[1]  # of the first seed's second step
    steps, values = report._by_step(rows, "em")
    assert steps.tolist() == [1, 2, 3]
    assert values[1].tolist() == [0.6, 0.5, 0.4]
    assert np.isnan(values[0]).tolist() == [False, True, False]
    report.figure(rows, ["ppo"], tmp_path / "figure.png")


def test_contrasts_are_differences_seed_by_seed(tmp_path: Path) -> None:
    planned = runs.plan(tmp_path, ["off-policy"], ["gspo", "grpo"], range(2))
    ends = {("gspo", 0): 0.7, ("grpo", 0): 0.5, ("gspo", 1): 0.5, ("grpo", 1): 0.1}
    for run in planned:
        fake(run, [0.0] * 5 + [ends[run.variant, run.seed]] * 5, ends[run.variant, run.seed])
    text = report.contrasts(report.collect(planned, tmp_path / "stability.csv"))
    # Differences 0.2 and 0.4: mean 0.3, sd 0.1414; half width 12.706 x 0.1414 / sqrt(2) = 1.271.
    assert (
        "| off-policy | `gspo` | `grpo` | 2 | +0.300 [-0.971, +1.571] | +0.300 [-0.971, +1.571] | "
        "+0.000 [+0.000, +0.000] |" in text
    )
    assert text.count("| off-policy |") == 1
    known = {name for pairs in CONTRASTS.values() for pair in pairs for name in pair}
    assert known <= set(VARIANTS)


def test_runs_that_began_with_different_pupils_are_not_paired(tmp_path: Path) -> None:
    for run in runs.plan(tmp_path, ["off-policy"], ["gspo", "grpo"], range(3)):
        again = run.seed == 2 and run.variant == "gspo"
        fake(run, [0.5] * 5, 0.9 if again else 0.5, before=0.4 if again else 0.3)
    rows = report.collect(
        runs.plan(tmp_path, ["off-policy"], ["gspo", "grpo"], range(3)), tmp_path / "stability.csv"
    )
    assert "| `gspo` | `grpo` | 2 | +0.000 [+0.000, +0.000] |" in report.contrasts(rows)


def test_runs_whose_folders_are_gone_stay_in_the_csv(tmp_path: Path) -> None:
    file = tmp_path / "stability.csv"
    assert report.read(file) == []
    first, second = runs.plan(tmp_path, ["off-policy"], ["grpo"], range(2))
    fake(second, [0.5, 0.25], 0.5)
    (before,) = {report.key(row) for row in report.collect([second], file)}
    assert before == ("off-policy", "grpo", "1")
    fake(first, [0.125], 0.25)
    rows = report.collect([first], file)
    assert [(row["seed"], row["em"]) for row in rows] == [
        ("0", "0.125"),
        ("1", "0.5"),
        ("1", "0.25"),
    ]
    assert report.read(file) == [dict.fromkeys(report.read(file)[0], "") | row for row in rows]
    # A run that is made again takes the place of the old one.
    assert len(report.collect([second], file)) == 3


SMALL = (
    *("--model.name=tiny", "--dataset.people=20", "--dataset.hops=[1]", "--run.steps=2"),
    *("--rollout.questions_per_step=2", "--engine.max_tokens=8", "--evaluation.questions=2"),
)
TIMINGS = {"seconds", "generated_tokens_per_s", "trained_tokens_per_s"}


def test_a_run_depends_on_nothing_that_an_earlier_one_left_in_its_worker(tmp_path: Path) -> None:
    def cells(folder: Path) -> list[runs.Run]:
        return runs.plan(folder, ["off-policy"], ["ppo", "grpo"], [1])

    first = cells(tmp_path / "one")
    alone = cells(tmp_path / "other")[1:]
    assert runs.execute(first, workers=1, extra=SMALL) == []
    assert runs.execute(alone, workers=1, extra=SMALL) == []
    lines = [
        [
            {k: v for k, v in json.loads(line).items() if k not in TIMINGS}
            for line in (run.folder / "metrics.jsonl").open()
        ]
        for run in (first[1], alone[0])
    ]
    assert len(lines[0]) == 2 and lines[0] == lines[1]
    assert all(run.done for run in (*first, *alone))
