"""What a command line may hold."""

import pytest

from experiments.arguments import is_sweep, prepare
from lobra.errors import BadInput


def test_a_bare_word_is_the_value_of_the_verbs_main_key():
    assert prepare("figure", ["compare", "run=OUT"]) == ["name=compare", "run=OUT"]
    assert prepare("run", ["lobra", "steps=3"]) == ["policy=lobra", "steps=3"]
    assert prepare("export", ["OUT/lobra"]) == ["run=OUT/lobra"]


def test_options_may_stand_anywhere():
    given = ["experiment=smoke", "-m", "cluster.nodes=2,4", "--cfg", "job"]
    assert prepare("compare", given) == ["-m", "--cfg", "job", "experiment=smoke", "cluster.nodes=2,4"]
    assert is_sweep(given)
    assert not is_sweep(["experiment=smoke"])


@pytest.mark.parametrize(
    "override",
    [
        "hydra/launcher=joblib",
        "hydra.launcher.n_jobs=2",
        "hydra.sweeper.max_batch_size=5",
        "policies=[a,b]",
        "seed=3e-4",
    ],
)
def test_ordinary_overrides_pass_unchanged(override):
    assert prepare("compare", [override]) == [override]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["one", "two"], "argument 'two'"),
        (["seed=${oc.env:HOME}"], "seed: interpolations"),
        (["run_dir=${hydra:runtime.cwd}"], "run_dir: interpolations"),
        (["policy.dispatch={_target_:os.system}"], "_target_ is not accepted"),
        (["++policy._target_=os.system"], "_target_ is not accepted"),
        (["+model.layers=3"], "keys cannot be added"),
        (["~cluster"], "keys cannot be added or removed"),
        (["hydra.searchpath=[file:///tmp]"], "hydra.searchpath"),
        (["hydra.run.dir=/tmp"], "hydra.run.dir"),
        (["hydra.callbacks.a=b"], "hydra.callbacks.a"),
        (["hydra/job_logging=default"], "hydra/job_logging"),
        (["--config-dir", "/tmp"], "option --config-dir"),
        (["--config-d=/tmp"], "option --config-d=/tmp"),
        (["-cd", "/tmp"], "option -cd"),
        (["--experimental-rerun=job.pickle"], "option --experimental-rerun"),
        (["--cfg", "all;"], "option --cfg"),
    ],
)
def test_what_could_run_code_or_read_elsewhere_is_refused(arguments, said):
    with pytest.raises(BadInput, match=said.replace(".", r"\.")):
        prepare("run", arguments)


def test_a_verb_without_a_main_key_takes_no_bare_word():
    with pytest.raises(BadInput, match="give key=value"):
        prepare("compare", ["lobra"])
