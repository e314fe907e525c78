"""Placements in which replicas that stay keep their GPUs."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lobra.plan import DeploymentPlan, ReplicaConfig
from policies.deployment.placement import Kind, place
from policies.replanning.keeping import placements
from toys import MODEL, cluster, tenant


def kind(tp: int, pp: int = 1, budget: int = 1024, recompute: int = 0) -> Kind:
    return Kind(ReplicaConfig(tp, pp, recompute), budget)


KINDS = st.sampled_from([kind(1), kind(2), kind(4), kind(8), kind(1, 2), kind(2, 2), kind(1, 4), kind(1, 4, 512)])
COUNTS = (
    st.dictionaries(KINDS, st.integers(1, 6), min_size=1, max_size=4)
    .map(lambda counts: tuple(sorted(counts.items())))
    .filter(lambda counts: sum(each.config.gpus * count for each, count in counts) <= 16)
)


@settings(max_examples=60, deadline=None)
@given(COUNTS, COUNTS)
def test_every_placement_is_a_legal_plan_of_the_replicas_asked_for(old, new):
    offered = list(placements(new, place(old, cluster()), cluster()))
    assert offered
    assert len(set(offered)) == len(offered)
    for replicas in offered:
        DeploymentPlan(MODEL, cluster(), (tenant(),), replicas)  # checks places
        found = sorted((replica.config, replica.budget) for replica in replicas)
        assert found == sorted((each.config, each.budget) for each, count in new for _ in range(count))


@settings(max_examples=30, deadline=None)
@given(COUNTS)
def test_the_first_placement_of_the_same_replicas_is_the_running_one(counts):
    running = place(counts, cluster())
    assert next(placements(counts, running, cluster())) == running


def test_what_stays_keeps_its_gpus_and_the_rest_finds_room():
    running = place(((kind(1), 8), (kind(8), 1)), cluster())
    offered = list(placements(((kind(1), 4), (kind(4), 1), (kind(8), 1)), running, cluster()))
    for replicas in offered[:-1]:
        assert len(set(replicas) & set(running)) == 5


def test_replicas_that_recompute_now_stay_where_they_are():
    running = place(((kind(2, budget=512), 4),), cluster())
    (found, *_) = placements(((kind(2, budget=2048, recompute=8), 4),), running, cluster())
    assert [replica.gpus for replica in found] == [replica.gpus for replica in running]


def test_small_replicas_give_up_their_places_where_a_large_one_finds_no_room():
    running = tuple(replica for n, replica in enumerate(place(((kind(1), 16),), cluster())) if n in (0, 8))
    (found,) = placements(((kind(8), 2),), running, cluster())  # both nodes were begun
    assert sorted(replica.gpus[0] for replica in found) == [0, 8]
