"""A run's numbers are named by the content of its files, not by their place."""

import shutil

import toy_models
from executor.description import Execution, knobs
from executor.identity import store_places
from lobra.store import StoreWriter


def store(folder, ids):
    with StoreWriter(folder, 50) as writer:
        writer.append(ids, [(1, len(ids))])
    return folder


def numerics(**changed) -> str:
    return Execution(**{name: knobs(values) for name, values in changed.items()}).numerics()


def test_a_store_that_moves_is_the_same_and_one_with_other_tokens_is_not(tmp_path):
    first = store(tmp_path / "first", [1, 2, 3])
    shutil.copytree(first, tmp_path / "copy")
    other = store(tmp_path / "other", [1, 2, 4])
    names = [numerics(data={"kind": "stores", "tenant a": str(path)}) for path in (first, tmp_path / "copy", other)]
    assert names[0] == names[1] != names[2]


def test_a_folder_of_stores_is_named_by_all_of_them(tmp_path):
    store(tmp_path / "x" / "a", [1, 2, 3])
    store(tmp_path / "y" / "a", [1, 2, 3])
    one, two = (numerics(data={"kind": "store", "path": str(tmp_path / name)}) for name in "xy")
    assert one == two
    store(tmp_path / "y" / "b", [1, 2, 3])
    assert one != numerics(data={"kind": "store", "path": str(tmp_path / "y")})


def test_a_model_directory_is_named_by_its_configuration(tmp_path):
    for name, layers in (("x", 2), ("y", 2), ("z", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(str(toy_models.body(num_hidden_layers=layers)))
    one, two, other = (numerics(model={"kind": "directory", "path": str(tmp_path / name)}) for name in "xyz")
    assert one == two != other


def test_the_places_of_stores_are_read_from_the_knobs(tmp_path):
    assert store_places({"kind": "stores", "tenant kind": "/x"})["kind"].name == "x"
