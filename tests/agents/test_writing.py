"""Whole or not at all; and what can be found out before work starts that could not be written."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from agents.writing import (
    WriteError,
    check_creatable,
    clear_scratch,
    put_in_place,
    remove_folder,
    scratch_folder,
    write_text,
    writing_to,
)
from retrieval.errors import InputError


def test_a_folder_that_could_not_be_made_is_found_out_beforehand(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    check_creatable("run.dir", tmp_path)
    check_creatable("run.dir", tmp_path / "new" / "newer")
    for folder in (file, file / "sub"):
        with pytest.raises(InputError, match=f"run.dir: {folder} cannot be made: {file} is not a"):
            check_creatable("run.dir", folder)
    with pytest.raises(
        InputError, match=r"run\.dir: .*: File name too long; choose another folder"
    ):
        check_creatable("run.dir", tmp_path / ("x" * 300))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_earlier_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "step-1"
    for mark in ("old", "new"):
        with scratch_folder(target) as folder:
            (folder / mark).write_text("")
            put_in_place(folder, target)
    assert [path.name for path in target.iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["step-1"]
    remove_folder(target)
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    for name in ("run/checkpoints/writing-abc/step-2", "run/checkpoints/step-1", "run/writings"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "file").write_text("")
    (tmp_path / "run" / ".metrics.jsonl.writing").write_text("half")
    clear_scratch(tmp_path / "run")
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"run/checkpoints/step-1/file", "run/writings/file"}
    clear_scratch(tmp_path / "nowhere")


def test_a_file_that_cannot_be_written_leaves_no_scratch(tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.mkdir()
    message = f"^cannot write to {tmp_path}: Is a directory$"
    with pytest.raises(WriteError, match=message) as caught, writing_to(tmp_path):
        write_text(target, "text")
    assert isinstance(caught.value.__cause__, IsADirectoryError)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_safetensors_own_error_is_told_like_the_systems(tmp_path: Path) -> None:
    with (
        pytest.raises(WriteError, match=f"^cannot write to {tmp_path}: No such file or directory$"),
        writing_to(tmp_path),
    ):
        save_file({"a": torch.zeros(1)}, tmp_path / "nowhere" / "a.safetensors")
