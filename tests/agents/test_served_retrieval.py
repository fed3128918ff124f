"""A run whose retriever is a server is the run whose retriever is that engine."""

from pathlib import Path

import pytest

from agents.eval_command import main as evaluate
from agents.train_command import main as train
from tests.agents import runs
from tests.retrieval.serving import serving

ENGINE = '''"""An engine that searches, then answers; the questions are about numbers."""
from dataclasses import dataclass
from tests.agents.builds import ScriptedEngine

@dataclass(frozen=True)
class Config:
    """No settings."""

def build(config, policy):
    def write(row, turn):
        text = "<answer>a</answer>" if turn else f"<search>number {row % 4} letter</search>"
        return policy.encode(text)
    return ScriptedEngine(write)
'''


def test_over_http_or_in_process_the_same_episodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "served_plugs").mkdir()
    (tmp_path / "served_plugs" / "searching.py").write_text(ENGINE)
    sections = runs.letters(tmp_path)
    corpus = sections["retriever"]["corpus"]
    engine = {"name": "served_plugs.searching", "max_tokens": 24}
    config = runs.config_file(tmp_path, **{**sections, "engine": engine})

    played, summaries = {}, {}
    with serving("--retriever", "bm25s", "--corpus", corpus) as server:
        over_http = [f"--retriever.urls=[{server.url}]", "--retriever.name=http"]
        for name, flags in (("process", []), ("http", [*over_http, "--retriever.corpus=null"])):
            folder = tmp_path / name
            argv = ["--config", config, *flags, "--run.dir", folder, "--run.steps=2"]
            result = runs.call(capsys, train, *argv)
            assert result.status == 0, result.err
            played[name] = (folder / "rollouts.jsonl").read_bytes()
            out = tmp_path / f"{name}-results"
            argv = ["--agent", folder, "--out", out, "--limit=4"]
            result = runs.call(capsys, evaluate, *argv)
            assert result.status == 0, result.err
            summaries[name] = runs.read_rows(out / "predictions.jsonl")
            assert (
                server.ask("GET", "/info")[2]["fingerprint"] in (out / "summary.json").read_text()
            )
        # The corpus file may be named too: it must be the one that is served.
        other = tmp_path / "other.jsonl"
        other.write_text('{"id": "x", "title": "x", "text": "x"}\n')
        argv = ["--config", config, *over_http, f"--retriever.corpus={other}"]
        result = runs.call(capsys, train, *argv, "--run.dir", tmp_path / "refused")
        assert "serves another corpus" in result.refused()
        metrics = server.ask("GET", "/metrics")[2]
    assert played["http"] == played["process"] and b'"hits": [{' in played["http"]
    assert summaries["http"] == summaries["process"]
    assert 'retrieval_requests_total{dialect="native",status="200"}' in metrics
