"""The other side's word: transformers computes with our adapters, PEFT and the executor go on from each other.

Skipped where the extra `peft` is not installed. Every base model is a tiny Hugging Face folder made on the spot.
"""

import json
import os
import warnings
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file

import toy_models
import toys
from executor.engine import Engine
from executor.huggingface import open_huggingface
from executor.patterns import PatternedTokens
from executor.peft_format import check_tenant, export_adapter, import_adapter
from executor.settings import Settings
from executor.state import TenantState
from lobra.plan import DeploymentPlan, MicroBatch, Replica, ReplicaConfig, StepPlan
from lobra.spec import ModelSpec, SequenceRef

os.environ["HF_HUB_OFFLINE"] = "1"  # read when transformers is imported
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")
pytestmark = pytest.mark.filterwarnings("ignore")  # what these packages warn of is theirs

IDS = [1, 5, 2, 30, 7, 39, 0, 11]
KINDS = ["llama", "qwen2"]
MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
TRAINING = Settings(dtype="float32", epsilon=1e-3)  # Adam with a small epsilon turns rounding into steps
REFS = [SequenceRef(0, index, length, labels) for index, (length, labels) in enumerate([(9, 9), (17, 12), (30, 1)])]
STEPS = 3


def tenant(**more):
    return toys.tenant(**({"rank": 4, "alpha": 8.0, "learning_rate": 1e-2, "context_limit": 64} | more))


def base_model(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def peft_logits(base, adapter):
    with torch.no_grad():
        return peft.PeftModel.from_pretrained(base_model(base), adapter).eval()(torch.tensor([IDS])).logits[0]


def engine_of(folder, who, settings=TRAINING):
    weights = open_huggingface(folder)
    config = weights.config
    sizes = {field: getattr(config, field) for field in ("layers", "hidden", "intermediate", "heads", "kv_heads")}
    spec = ModelSpec("toy", **sizes, vocabulary=config.vocabulary)
    plan = DeploymentPlan(spec, toys.cluster(1, 1), (who,), (Replica(ReplicaConfig(1, 1), (0,), 128),))
    engine = Engine(config, weights, PatternedTokens(config.vocabulary), settings)
    engine.deploy(plan)
    return engine


def trained(engine, steps=STEPS):
    """Losses of packed steps over the same sequences."""
    packed = MicroBatch((tuple(REFS),), sum(ref.length for ref in REFS))
    return [engine.run_step(StepPlan(step, ((packed,),))).mean_losses[0] for step in range(steps)]


def peft_trained(model, who, config, steps=STEPS):
    """The same steps by PEFT, one sequence at a time; losses, model in place."""
    leaves = [parameter for parameter in model.parameters() if parameter.requires_grad]
    adam = torch.optim.AdamW(leaves, lr=who.learning_rate, eps=TRAINING.epsilon, weight_decay=0.0)
    losses = []
    for _ in range(steps):
        total = 0.0
        for ref in REFS:
            ids, labels = PatternedTokens(config.vocabulary).tokens(who.name, ref.index, ref.length, ref.labels)
            logits = model(input_ids=ids[None]).logits[0]
            loss = torch.nn.functional.cross_entropy(logits, labels, ignore_index=-100, reduction="sum")
            (loss / sum(each.labels for each in REFS)).backward()
            total += float(loss.detach())
        adam.step()
        adam.zero_grad()
        losses.append(total / sum(ref.labels for ref in REFS))
    return losses


def worst(found, expected):
    assert found.keys() == expected.keys()
    return max(float((found[key] - expected[key]).abs().max()) for key in expected)


@pytest.mark.parametrize("more", [{}, {"rslora": True}, {"target_modules": ("v_proj", "down_proj"), "rank": 3}])
@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_adapter_gives_the_executors_logits_in_peft(tmp_path, kind, more):
    toy_models.made(tmp_path / "base", kind)
    who = tenant(**more)
    engine = engine_of(tmp_path / "base", who)
    trained(engine)
    state = engine.export(who.name)
    export_adapter(tmp_path / "a", who, engine.config, state.tensors["value"], "toys/base")

    found = peft_logits(tmp_path / "base", tmp_path / "a")

    weights = open_huggingface(tmp_path / "base")
    mine = toy_models.executor_logits(weights, weights.config, IDS, dtype=torch.float32, adapter=state)
    with torch.no_grad():
        untouched = base_model(tmp_path / "base")(torch.tensor([IDS])).logits[0]
    assert float((mine - untouched).abs().max()) > 0.01  # the adapter does something
    assert float((found - mine).abs().max()) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_peft_saves_the_tensors_it_was_given(tmp_path, kind):
    toy_models.made(tmp_path / "base", kind)
    engine = engine_of(tmp_path / "base", tenant())
    trained(engine)
    export_adapter(tmp_path / "a", tenant(), engine.config, engine.export("a").tensors["value"])

    peft.PeftModel.from_pretrained(base_model(tmp_path / "base"), tmp_path / "a").save_pretrained(tmp_path / "b")

    mine, theirs = (load_file(tmp_path / name / "adapter_model.safetensors") for name in "ab")
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    assert import_adapter(tmp_path / "b", engine.config).rank == 4


@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_of_peft_trains_on_here_as_it_would_there(tmp_path, kind):
    """PEFT trains and saves; both go on with a fresh optimiser: the same losses, the same matrices."""
    toy_models.made(tmp_path / "base", kind)
    config = open_huggingface(tmp_path / "base").config
    settings = peft.LoraConfig(r=4, lora_alpha=8, target_modules=list(MODULES), task_type="CAUSAL_LM")
    model = peft.get_peft_model(base_model(tmp_path / "base"), settings)
    begun = peft_trained(model, tenant(), config)
    model.save_pretrained(tmp_path / "before")
    theirs = peft_trained(model, tenant(), config)
    model.save_pretrained(tmp_path / "after")

    adapter = import_adapter(tmp_path / "before", config)
    who = tenant(target_modules=adapter.target_modules)
    check_tenant(who, adapter)
    engine = engine_of(tmp_path / "base", who)
    engine.load(TenantState(who, {"value": adapter.matrices}))
    mine = trained(engine)

    assert mine == pytest.approx(theirs, rel=1e-5)
    assert begun[0] > begun[-1] > mine[0] > mine[-1]
    values = engine.export("a").tensors["value"]
    moved = worst(values, adapter.matrices)
    assert worst(values, import_adapter(tmp_path / "after", config).matrices) < 1e-3 * moved


def test_ranks_and_alphas_that_differ_by_module_mean_the_same_here(tmp_path):
    toy_models.made(tmp_path / "base")
    weights = open_huggingface(tmp_path / "base")
    settings = peft.LoraConfig(
        r=4,
        lora_alpha=8,
        target_modules=["q_proj", "v_proj", "down_proj"],
        rank_pattern={"v_proj": 2, "model.layers.1.mlp.down_proj": 6},
        alpha_pattern={"q_proj": 3},
        init_lora_weights=False,
        task_type="CAUSAL_LM",
    )
    peft.get_peft_model(base_model(tmp_path / "base"), settings).save_pretrained(tmp_path / "a")
    adapter = import_adapter(tmp_path / "a", weights.config)
    who = replace(tenant(), rank=adapter.rank, alpha=adapter.alpha, target_modules=adapter.target_modules)
    state = TenantState(who, {"value": adapter.matrices})

    mine = toy_models.executor_logits(weights, weights.config, IDS, dtype=torch.float32, adapter=state)

    assert adapter.rank == 6
    assert float((mine - peft_logits(tmp_path / "base", tmp_path / "a")).abs().max()) < 1e-5


def test_our_configuration_is_read_by_peft_field_by_field(tmp_path):
    toy_models.made(tmp_path / "base")
    who = tenant(rslora=True, dropout=0.25, alpha=3.5)
    engine = engine_of(tmp_path / "base", who)
    export_adapter(tmp_path / "a", who, engine.config, engine.export("a").tensors["value"], "toys/base")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theirs = peft.LoraConfig.from_pretrained(tmp_path / "a")

    mine = json.loads((tmp_path / "a" / "adapter_config.json").read_text())
    listed = {key: getattr(theirs, key) for key in mine if key not in ("peft_type", "target_modules")}
    assert listed == {key: mine[key] for key in listed}
    assert (theirs.peft_type.value, theirs.target_modules) == ("LORA", set(MODULES))
