"""What is given is checked where it is made."""

import pytest

from lobra.errors import BadInput
from lobra.spec import ClusterSpec, GpuSpec, Link, ModelSpec, check_tenants
from toys import FAST, GPU, MODEL, SLOW, cluster, tenant


def test_a_cluster_of_equal_nodes_counts_its_gpus_and_knows_where_they_live():
    spec = cluster(nodes=3, gpus_per_node=4)

    assert spec.gpus == 12
    assert [spec.node_of(gpu) for gpu in (0, 3, 4, 11)] == [0, 0, 1, 2]


def test_hosts_of_three_and_five_gpus_are_one_cluster_of_eight():
    spec = ClusterSpec("odd", 2, 4, GPU, FAST, SLOW, node_sizes=(3, 5))

    assert spec.gpus == 8
    assert [spec.node_of(gpu) for gpu in range(8)] == [0, 0, 0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("sizes", [(3,), (3, 0)])
def test_node_sizes_that_do_not_match_the_nodes_are_refused(sizes: tuple[int, ...]):
    with pytest.raises(BadInput, match="node_sizes"):
        ClusterSpec("odd", 2, 4, GPU, FAST, SLOW, node_sizes=sizes)


def test_zero_gpus_are_refused_by_name():
    with pytest.raises(BadInput, match="cluster 'toy': gpus_per_node is 0"):
        cluster(gpus_per_node=0)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_hardware_figures_must_be_finite_and_positive(value: float):
    with pytest.raises(BadInput, match="memory_gib"):
        GpuSpec("x", value, 312, 1555)
    with pytest.raises(BadInput, match="gigabytes_per_second"):
        Link(value, 1)


def test_llama_2_7b_has_6_74_billion_parameters():
    spec = ModelSpec("llama2_7b", 32, 4096, 11008, 32, 32, 32000)

    assert spec.parameters == 6_738_415_616  # as the published checkpoint


def test_grouped_query_attention_and_tied_embeddings_have_fewer_parameters():
    grouped = ModelSpec("g", 8, 64, 128, 8, 2, 100)
    tied = ModelSpec("t", 8, 64, 128, 8, 8, 100, tied_embeddings=True)

    assert MODEL.parameters - grouped.parameters == 8 * 64 * 8 * 2 * 6
    assert MODEL.parameters - tied.parameters == 100 * 64


@pytest.mark.parametrize("name", ["", "A", "../x", "a/b", "-a", "a" * 64, "é", "a b", "a\0"])
def test_a_tenant_name_that_could_be_more_than_data_is_refused(name: str):
    with pytest.raises(BadInput, match="a name is 1 to 63"):
        tenant(name)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch_size", 0),
        ("context_limit", -1),
        ("rank", 0),
        ("alpha", 0.0),
        ("learning_rate", float("nan")),
        ("overlong", "ignore"),
        ("schedule", "magic"),
        ("dropout", 1.0),
        ("target_modules", ()),
        ("warmup_steps", -1),
        ("clip_norm", 0.0),
    ],
)
def test_a_wrong_tenant_field_is_refused_by_its_name(field: str, value: object):
    with pytest.raises(BadInput, match=field):
        tenant(**{field: value})


def test_a_tenant_set_must_exist_and_have_different_names():
    with pytest.raises(BadInput, match="at least one tenant"):
        check_tenants(())
    with pytest.raises(BadInput, match="'a' stands twice"):
        check_tenants((tenant("a"), tenant("b"), tenant("a")))
