"""Money: hand arithmetic, whole nodes, reserved hours, quotes against final bills; everything adds up."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capacity_worlds import arrival, oracle, policy
from experiments.capacity.accounting import Bill
from experiments.capacity.admission import Admission
from experiments.capacity.composing import bill_of, fleet_of, jobs_of
from experiments.capacity.deciding import Decider
from experiments.capacity.ideal import break_even, efficiency, ideal_per_million, to_charge, tokens_per_second
from experiments.capacity.money import Extras, caveats, invoice, per_million
from experiments.capacity.oracle import Oracle
from experiments.capacity.price_file import read_prices
from experiments.capacity.prices import Line, Price, PriceBook
from experiments.capacity.quotes import alone_gpu_seconds, more_than_alone, quotes
from experiments.walk import World
from lobra.errors import BadInput
from lobra.spec import ClusterSpec, GpuSpec
from toys import FAST, MODEL, SLOW, ToyCost, ToyWorkload, tenant

BILLION, H100, A100 = 1e9, 989.0, 312.0


def price(amount=8.0, unit="node_hour", gpus_per_node=8, **more):
    return Price("toy", "somebody", amount, unit, "on_demand", gpus_per_node, "a page", "2026-11-01", **more)


def book(*offers, lines=()):
    return PriceBook("own", "USD", offers, tuple(lines))


def adds_up(found):
    parts = math.fsum([found.idle.total, *(share.total for share in found.shares)])
    return parts == pytest.approx(found.total, rel=1e-9)


# (billions of parameters, teraflops, $ a GPU hour, tokens a second, $ a million): computed by hand to two digits
BY_HAND = [
    (8, A100, 1.79, 3900, 0.1275),
    (8, H100, 2.69, 12_362, 0.0604),
    (8, H100, 3.99, 12_362, 0.0897),
    (8, H100, 6.88, 12_362, 0.1546),
    (8, H100, 12.29, 12_362, 0.2762),
    (70, H100, 3.99, 1413, 0.7844),
    (70, H100, 6.88, 1413, 1.3525),
]


@pytest.mark.parametrize(("parameters", "teraflops", "an_hour", "rate", "a_million"), BY_HAND)
def test_tokens_and_dollars_at_40_percent_are_those_of_the_hand(parameters, teraflops, an_hour, rate, a_million):
    found = tokens_per_second(parameters * BILLION, teraflops)

    assert found == pytest.approx(rate, rel=0.01)
    assert ideal_per_million(an_hour, found) == pytest.approx(a_million, rel=0.01)


@pytest.mark.parametrize(
    ("parameters", "an_hour", "charged", "needed"),
    [(8, 3.99, 0.44, 0.204), (8, 6.88, 0.44, 0.351), (8, 12.29, 0.44, 0.628), (70, 3.99, 2.90, 0.270)],
)
def test_a_market_price_pays_for_the_gpus_from_this_efficiency_on(parameters, an_hour, charged, needed):
    ideal = ideal_per_million(an_hour, tokens_per_second(parameters * BILLION, H100))

    assert break_even(ideal, charged) == pytest.approx(needed, rel=0.01)


# 8 billion parameters on an H100 at 40 %, four operations a token; nothing else takes any time
IDEAL = ToyCost(
    layers=8, floor=0.0, fixed=0.0, square=0.0, shapes=((1, 1),), token=1e3 / tokens_per_second(8 * BILLION, H100) / 8
)


def ideal_fleet():
    """Two tenants whose sequences are all as long, on 8 GPUs: no padding, no bubble, nobody waits for the slowest."""
    who = (tenant("a", 64, 512), tenant("b", 64, 512))
    hardware = ClusterSpec("h100", 1, 8, GpuSpec("H100-80GB", 80, H100, 3350), FAST, SLOW)
    world = World(ToyWorkload(who, ((128,), (128,))), MODEL, hardware, IDEAL)
    team = Oracle(world, policy(), {"a": "a", "b": "b"}, batches=1)
    arrivals = [
        replace(arrival(name, "short", 0.0, 500), tenant=each, kind=name) for name, each in zip("ab", who, strict=True)
    ]
    fleet = fleet_of(team, Admission(team), Decider(team, "never", lambda *_: 0.0))
    return team, fleet.play(jobs_of(arrivals, world.workload))


def test_a_fleet_without_any_overhead_costs_what_the_hand_computes():
    """The whole way, cost model to plan to fleet to bill to price, meets the arithmetic above within 1 %."""
    team, history = ideal_fleet()
    tokens = math.fsum(each.tokens for each in history.records)
    bill = bill_of(history, team)
    prices = read_prices("2026-11")

    assert tokens == 2 * 500 * 64 * 128
    assert tokens / bill.total == pytest.approx(12_400, rel=0.01)
    assert efficiency(tokens, bill.total, tokens_per_second(8 * BILLION, H100)) == pytest.approx(1, rel=0.01)
    for provider, a_million in (("runpod-secure", 0.0897), ("runpod-community", 0.0604), ("azure", 0.2762)):
        found = invoice(bill, 8, prices.find("H100-80GB", provider), prices)
        assert per_million(found.total, tokens) == pytest.approx(a_million, rel=0.01)
        assert adds_up(found)


def test_a_node_of_four_used_45_minutes_costs_three_dollars():
    bill = Bill("work", (("a", 4 * 45 * 60.0),), 0.0, 4 * 45 * 60.0)
    four = price(amount=4.0, gpus_per_node=4)
    found = invoice(bill, 4, four, book(four))

    assert (found.hours, found.billed_gpus, found.total) == (0.75, 4, 3.0)
    assert found.shares[0].total == 3.0


def test_unused_gpus_of_a_node_and_reserved_hours_are_declared_as_idle_by_their_reasons():
    bill = Bill("work", (("a", 4 * 3600.0), ("b", 8 * 3600.0)), 0.0, 12 * 3600.0)  # 12 GPUs for an hour
    found = invoice(bill, 12, price(), book(price()), reserved_hours=3.0)

    assert found.billed_gpus == 16
    assert [share.total for share in found.shares] == [4.0, 8.0]
    assert (found.idle.no_tenant, found.idle.rest_of_node, found.idle.reserved) == (0.0, 4.0, 32.0)
    assert found.total == 48.0
    assert "16 GPUs are billed" in caveats(found, "measured")[-1]


def test_storage_goes_to_who_asks_for_it_and_is_refused_where_its_price_is_unknown():
    bill = Bill("work", (("a", 3600.0), ("b", 3600.0)), 0.0, 7200.0)
    storage = Line("somebody", "storage", 0.10, "gb_month", "a page", "2026-11")
    one = price(1.0, "gpu_hour", 1)
    wishes = {"a": Extras(storage_gb_months=20)}
    found = invoice(bill, 1, one, book(one, lines=[storage]), extras=wishes)

    assert [share.total for share in found.shares] == [3.0, 1.0]
    assert adds_up(found)
    assert found.leaves_out == ("egress",)
    with pytest.raises(BadInput, match="what somebody takes for storage is unknown"):
        invoice(bill, 1, one, book(one), extras=wishes)
    with pytest.raises(BadInput, match="extras of 'c', who is not on the bill"):
        invoice(bill, 1, one, book(one), extras={"c": Extras()})


def test_a_figure_that_rests_on_roofline_is_no_quote():
    bill = Bill("work", (("a", 3600.0),), 0.0, 3600.0)
    found = invoice(bill, 8, price(), book(price()))

    assert any("not a quote" in said for said in caveats(found, "roofline"))
    assert not any("not a quote" in said for said in caveats(found, "measured"))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1e9), min_size=1, max_size=9),
    st.floats(0, 1e9),
    st.integers(1, 200),
    st.floats(0.01, 1e4),
    st.integers(1, 16),
    st.floats(0, 1e4),
    st.sampled_from(["gpu_hour", "node_hour", "gpu_month"]),
)
def test_shares_and_declared_idle_are_the_bill_whatever_the_terms(seconds, idle, gpus, amount, a_node, reserved, unit):
    shares = tuple((f"t{at}", each) for at, each in enumerate(seconds))
    bill = Bill("work", shares, idle, math.fsum([idle, *seconds]))
    offer = price(amount, unit, a_node)

    assert adds_up(invoice(bill, gpus, offer, book(offer), reserved_hours=reserved))


def test_margin_is_a_part_of_the_price():
    assert to_charge(0.07, 0.3) == pytest.approx(0.10)
    with pytest.raises(BadInput, match="margin is 1"):
        to_charge(0.07, 1)
    with pytest.raises(BadInput, match="0 useful tokens"):
        per_million(1.0, 0)


TEAM = (arrival("long-0", "long", 0.0, 400), arrival("short-0", "short", 0.0, 40))


def played(rule="work"):
    team = oracle(*TEAM)
    fleet = fleet_of(team, Admission(team), Decider(team, "never", lambda *_: 0.0))
    history = fleet.play(jobs_of(TEAM, team.world.workload))
    return team, history, bill_of(history, team, rule)


def test_the_quote_holds_for_who_keeps_its_company_and_not_for_who_is_left_alone():
    team, history, bill = played()
    by_name = {each.tenant: each for each in quotes(history, team, bill)}

    assert by_name["short-0"].beside == ("long-0",)
    assert by_name["short-0"].change == pytest.approx(0, abs=0.1)  # steps are drawn from two played batches
    alone = 360 * team.step_time(("long-0",), history.intervals[-1].plan).mean * 8  # the steps after short has left
    first = by_name["long-0"].quoted * 40 / 400
    assert by_name["long-0"].final == pytest.approx(first + alone, rel=0.05)


def test_what_each_would_have_cost_alone_counts_the_steps_it_made():
    team, history, _ = played()

    assert alone_gpu_seconds(history, team)["short-0"] == pytest.approx(40 * team.alone_seconds("short-0") * 8)


def test_token_shares_charge_short_sequences_for_the_pace_of_the_long_ones():
    many = (arrival("long-0", "long", 0.0, 100), arrival("short-0", "short", 0.0, 100))
    team = oracle(*many)
    fleet = fleet_of(team, Admission(team), Decider(team, "never", lambda *_: 0.0))
    history = fleet.play(jobs_of(many, team.world.workload))
    worst = {
        rule: {each.tenants[0]: each.share for each in more_than_alone(history, team, bill_of(history, team, rule))}
        for rule in ("tokens", "work")
    }

    assert worst["work"].get("short-0", 0.0) < worst["tokens"].get("short-0", 0.0)
