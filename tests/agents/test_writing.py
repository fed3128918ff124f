"""What can be found out before work starts whose results could not be written."""

from pathlib import Path

import pytest

from agents.writing import check_creatable
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
