import sys

import pytest

from retrieval import plugins
from retrieval.errors import InputError

FOLDER = "retrieval.retrievers"

COMPLETE = "class Config: ...\ndef build(config): ...\n"


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A plug-in folder of somebody else: the package `shop` with four modules."""
    sources = {
        "__init__": "",
        "whole": COMPLETE,
        "half": "class Config: ...\n",
        "bare": "",
        "needy": "import not_installed_here.part\n" + COMPLETE,
    }
    folder = tmp_path / "shop"
    folder.mkdir()
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    yield "shop"
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


def test_names_are_the_modules_of_the_folder_sorted(shop):
    assert plugins.names(shop) == ["bare", "half", "needy", "whole"]
    assert {"bm25s", "rank_bm25"} <= set(plugins.names(FOLDER))


def test_a_name_is_a_module_of_the_folder_even_if_a_library_has_it_too():
    assert plugins.load(FOLDER, "bm25s").__name__ == "retrieval.retrievers.bm25s"


def test_a_dotted_name_is_imported_as_it_stands(shop):
    assert plugins.load(FOLDER, "shop.whole") is plugins.load(shop, "whole")


@pytest.mark.parametrize(
    "name", ["", "nope", "no.pe", ".", ".bm25s", "..a.b", "bm25s.", "a/b", "é", "retrieval.nope"]
)
def test_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(InputError, match=r"^retrievers: unknown name .* bm25s, .*rank_bm25"):
        plugins.load(FOLDER, name)


def test_a_missing_dependency_is_named(shop):
    with pytest.raises(InputError, match="'needy' needs the missing package 'not_installed_here'"):
        plugins.load(shop, "needy")


@pytest.mark.parametrize(
    ("name", "lack"), [("half", "no build"), ("bare", "no Config and no build")]
)
def test_a_module_that_is_no_plug_in_says_what_it_lacks(shop, name, lack):
    with pytest.raises(InputError, match=f"shop.{name} defines {lack}$"):
        plugins.load(shop, name)


def test_a_folder_may_name_other_entry_points_of_which_one_is_enough(shop, tmp_path):
    assert plugins.entry_points(shop) == ("build",)
    sys.modules[shop].ENTRY_POINTS = ("build", "connect")
    (tmp_path / shop / "other.py").write_text("class Config: ...\ndef connect(config): ...\n")
    assert plugins.load(shop, "other").connect and plugins.load(shop, "whole").build
    with pytest.raises(InputError, match=r"shop.half defines no build or connect$"):
        plugins.load(shop, "half")
