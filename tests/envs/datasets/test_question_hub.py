"""Named sets from the hub: local folders stand for it, which `datasets` reads the same way."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import datasets
import pytest

from envs.question_hub import HubAddress, addresses
from retrieval import plugins
from retrieval.errors import InputError

from .question_files import parquet_file, questions

ROOT = Path(__file__).resolve().parents[3]
NAMED = (
    *("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"),
    *("medqa", "medmcqa", "pubmedqa", "mmlu_med", "alphamed"),
)
OWN = (HubAddress("owner/name", "rc", "train"),)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        (None, "hf:owner/name:rc@train"),
        ("hf:", "hf:owner/name:rc@train"),
        ("hf:@test", "hf:owner/name:rc@test"),
        ("hf::rc.web", "hf:owner/name:rc.web@train"),
        ("hf:other/set", "hf:other/set@train"),
        ("hf:other/set:x@validation[:10%]", "hf:other/set:x@validation[:10%]"),
        ("hf:/a/folder@test", "hf:/a/folder@test"),
    ],
)
def test_what_an_address_means(path: str | None, meant: str) -> None:
    (address,) = addresses(path, OWN, "name")
    assert str(address) == meant
    # Written out, it means itself.
    assert addresses(meant, (), "name") == (address,)


@pytest.mark.parametrize("path", ["hf:a@b@c", "hf:a:b:c", "hf:a@", "hf:a:"])
def test_what_is_no_address(path: str) -> None:
    with pytest.raises(InputError, match=f"{path}: not an address on the hub; write hf:owner/name"):
        addresses(path, OWN, "name")


@pytest.mark.parametrize("name", NAMED)
def test_every_named_set_knows_its_place(name: str) -> None:
    places = plugins.load("envs.datasets", name).SET.hub
    assert len(places) == (6 if name == "mmlu_med" else 1)
    assert all(place.repo.count("/") == 1 for place in places)


def test_rows_from_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "medmcqa"
    folder.mkdir()
    options = {"opa": "w", "opb": "x", "opc": "y", "opd": "z"}
    rows = [{"id": str(n), "question": f"q{n}?", "cop": n % 3, **options} for n in range(5)]
    parquet_file(folder / "train.parquet", rows)
    parquet_file(folder / "validation.parquet", [{**rows[0], "cop": 3}])
    found = questions("medmcqa", f"hf:{folder}", limit=3)
    assert [question.answers[0] for question in found] == ["A", "B", "C"]
    (only,) = questions("medmcqa", f"hf:{folder}@validation")
    assert only.answers == ("D", "z") and only.dataset == "medmcqa"


def test_several_places_are_one_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = plugins.load("envs.datasets", "mmlu_med")
    places = []
    for number, place in enumerate(plugin.SET.hub):
        folder = tmp_path / str(place.configuration)
        folder.mkdir()
        row = {"question": f"{folder.name}?", "choices": list("wxyz"), "answer": number % 4}
        parquet_file(folder / "test.parquet", [row])
        places.append(HubAddress(str(folder), split="test"))
    monkeypatch.setattr(plugin, "SET", replace(plugin.SET, hub=tuple(places)))
    found = questions("mmlu_med", None)
    assert [question.text for question in found] == [f"{subject}?" for subject in plugin.SUBJECTS]
    assert [question.answers[0] for question in found] == list("ABCDAB")
    parquet_file(tmp_path / "anatomy" / "test.parquet", [{**row, "answer": 9}])
    with pytest.raises(InputError, match=r"mmlu_med on the hub: hf:.*anatomy@test row 1: answer"):
        questions("mmlu_med", None)


def test_an_unreachable_hub_says_what_to_do(tmp_path: Path) -> None:
    script = (
        "from envs.datasets import musique\n"
        "from retrieval.errors import InputError\n"
        "try:\n    musique.build(musique.Config())\n"
        "except InputError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert line.startswith("dgslibisey/MuSiQue: cannot be loaded (")
    assert line.endswith("or give a local folder of Parquet files, or a file")
