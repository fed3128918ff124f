import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retrieval import build_index, index
from retrieval.retrievers import bm25s

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def corpus(tmp_path):
    file = tmp_path / "corpus.jsonl"
    rows = ({"id": f"p{n}", "title": "", "text": f"word{n} shared"} for n in range(40))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture
def flags(corpus, tmp_path):
    return ["--corpus", str(corpus), "--out", str(tmp_path / "x")]


def test_it_builds_what_the_flags_say(flags, tmp_path, capsys):
    assert build_index.main([*flags, "--index.k1", "1.5", "--index.analyzer=plain"]) == 0
    opened = index.open_index(tmp_path / "x")
    assert opened.manifest["config"] == {"k1": 1.5, "b": 0.4, "analyzer": "plain"}
    assert opened.retriever.search(["word7"], 1)[0][0].passage.id == "p7"
    said = capsys.readouterr()
    assert said.out.startswith(f"{tmp_path / 'x'}: bm25s, 40 passages, ") and not said.err
    assert said.out.count("\n") == 1


def test_the_settings_are_those_of_the_engine_named(flags, tmp_path):
    assert build_index.main([*flags, "--retriever=rank_bm25", "--index.epsilon", "0.5"]) == 0
    assert index.read_manifest(tmp_path / "x")["config"]["epsilon"] == 0.5


def test_help_shows_the_engines_settings(capsys):
    with pytest.raises(SystemExit) as caught:
        build_index.main(["--retriever", "rank_bm25", "--help"])
    assert caught.value.code == 0
    assert "--index.epsilon" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--retriever"], "--retriever: expected one argument"),
        (["--retriever", "nope"], "unknown name 'nope'; choose one of bm25s, "),
        (["--retriever", "json"], "unknown name 'json'"),
        (["--retriever", "os.path"], "module os.path defines no Config and no build"),
        (["--nope", "1"], "nope: unknown key. Valid keys at the top level: corpus, dry_run, index"),
        (["--corp", "c"], "corp: unknown key. Did you mean corpus?"),
        (["stray"], "stray: unknown key"),
        (["--out"], "--out: expected one argument"),
        (["--dry-run=3"], "--dry-run"),
        (["--index.k1", "high"], "index.k1 is high; give a value of type float"),
        (["--index.k1", "-1"], "k1 is -1.0: it must be 0 or more"),
        (["--index.k1", "nan"], "k1 is nan"),
        (["--index.analyser", "x"], "index.analyser: unknown key. Did you mean index.analyzer?"),
        (["--index.analyzer", "german"], "analyzer is 'german'; choose one of english"),
        (["--corpus", "nope.jsonl"], "nope.jsonl: no such file"),
        (["--corpus", "nope.jsonl", "--dry-run"], "nope.jsonl: no such file"),
        (["--corpus", str(ROOT)], "no such file"),
        (["--corpus", str(ROOT / "README.md")], "README.md: "),
        (["--out", str(ROOT)], "exists already"),
        (["--out", "/proc/x"], "the build stopped"),
    ],
)
def test_a_wrong_command_is_one_line_and_status_2(flags, tmp_path, capsys, extra, message):
    assert build_index.main([*flags, *extra]) == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1, said
    assert said.err.startswith("build_index: ") and message in said.err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("missing", ["--corpus", "--out"])
def test_a_missing_flag_is_named(flags, capsys, missing):
    place = flags.index(missing)
    assert build_index.main(flags[:place] + flags[place + 2 :]) == 2
    said = capsys.readouterr().err
    assert missing[2:] in said and said.count("\n") == 1


def test_the_process_ends_with_status_2_and_no_traceback(flags, tmp_path):
    command = [sys.executable, "-m", "retrieval.build_index", *flags, "--index.b", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "build_index: b is 2.0: it must lie within 0 and 1 (0.4 is usual)\n"


def test_ctrl_c_says_that_the_same_command_goes_on(flags, tmp_path, monkeypatch, capsys):
    def stop(config, corpus, folder):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)

    # A shell's background job ignores the signal, and what it starts inherits that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(bm25s, "write", stop)
            assert build_index.main(flags) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert "the same command goes on with it" in capsys.readouterr().err
    assert not (tmp_path / "x").exists() and (tmp_path / "x.partial").exists()
    assert build_index.main(flags) == 0


def test_a_dry_run_builds_nothing(flags, corpus, tmp_path, capsys):
    assert build_index.main([*flags, "--dry-run"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said[:4]] == ["passages", "memory", "disk", "time"]
    assert "40" in said[0] and said[1].endswith("fits") and said[2].endswith("fits")
    assert sorted(tmp_path.iterdir()) == [corpus]


def test_a_dry_run_needs_no_out_and_fails_where_the_machine_is_too_small(
    corpus, monkeypatch, capsys
):
    monkeypatch.setattr("retrieval.estimate.memory_free", lambda: 1000)
    assert build_index.main(["--corpus", str(corpus), "--dry-run"]) == 2
    assert "DOES NOT FIT" in capsys.readouterr().out
