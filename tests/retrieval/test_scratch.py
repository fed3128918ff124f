import gc
import os

from retrieval.scratch import Scratch


def test_the_folder_goes_with_the_object():
    scratch = Scratch("here-")
    folder = scratch.folder
    (folder / "x").mkdir()
    assert folder.name.startswith("here-")
    del scratch
    gc.collect()
    assert not folder.exists()


def test_a_forked_child_leaves_it_alone():
    scratch = Scratch("here-")
    folder = scratch.folder
    child = os.fork()
    if child == 0:
        del scratch
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert folder.exists()
    del scratch
