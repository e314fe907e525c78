"""Questions about money and load, on two tenants and eight GPUs: hand arithmetic, refusals, what is not separable."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from experiments.schema import register
from experiments.whatif import cheapest, max_load, mix, price, run, spot
from experiments.whatif.asking import asked_of, priced_of
from lobra.errors import BadInput

QUICK = (
    "cluster=a100_80gb",
    "cluster.nodes=1",
    "workload=lobra6",
    "workload.tenants=[dolly_15k,commitpackft]",
    "workload.batch_size=8",
    "workload.max_length=2048",
    "policy.deployment.batches=1",
    "policy.deployment.pool=1",
    "policy.deployment.exchanges=0",
    "policy.dispatch.work=0",
    "playing.batches=1",
    "playing.sigma=0",
    "churn.rule=never",
    "seeds=20",
)
SLOW = "budget=20000 steps"  # long enough that nodes are lost


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """A question composed as the verb does it."""
    register()
    folder = tmp_path_factory.mktemp("asked")

    def asked(question, *more):
        with initialize_config_module("conf", version_base="1.3"):
            config = compose("whatif", overrides=[f"question={question}", *QUICK, *more])
        return asked_of(OmegaConf.to_object(config), folder)

    return asked


def offer(amount, kind="on_demand", gpu="A100-80GB", provider="us"):
    terms = {"unit": "gpu_hour", "kind": kind, "gpus_per_node": 8, "source": "a test", "read_on": "2026-11-09"}
    return {"gpu": gpu, "provider": provider, "amount": amount} | terms


@pytest.fixture
def prices(tmp_path):
    def write(*offers):
        path = tmp_path / "prices.yaml"
        path.write_text(yaml.safe_dump({"schema": 1, "kind": "prices", "currency": "EUR", "offers": list(offers)}))
        return f"prices={path}"

    return write


def figure(answer, name):
    return next(each for each in answer.figures if each.name == name)


def column(sheet, name):
    return [row[sheet.columns.index(name)] for row in sheet.rows]


def check_plain(answer):
    """It can be written, and every chart can be told."""
    assert json.dumps(answer.as_dict(), allow_nan=False, default=str)
    assert all(chart.tells for chart in answer.charts)


def test_spot_that_is_hardly_ever_lost_saves_the_difference_of_the_prices(ask, prices):
    answer = spot.answer(ask("spot", prices(offer(4.0), offer(1.0, "spot")), "spot.mtbf=1000w", SLOW))

    assert answer.verdict == "yes"
    assert figure(answer, "saved by spot").value == pytest.approx(75, abs=0.1)
    assert figure(answer, "losses of nodes").value == 0
    check_plain(answer)


def test_spot_lost_at_the_rate_it_names_costs_as_much_as_on_demand(ask, prices):
    """The closed form of the answer, played: within 5 % of the bill; and once lost four times as often it is dearer."""
    offers = prices(offer(4.0), offer(2.0, "spot"))
    even = 3600 / figure(spot.answer(ask("spot", offers, SLOW)), "break-even losses of a node").value
    at_even = spot.answer(ask("spot", offers, f"spot.mtbf={even}", "budget=60000 steps"))
    worse = spot.answer(ask("spot", offers, f"spot.mtbf={even / 4}", SLOW))

    assert figure(at_even, "saved by spot").value == pytest.approx(0, abs=5)
    assert worse.verdict == "no"
    assert "does not pay" in worse.sentences[0]
    assert figure(worse, "losses of nodes").value > 10


def test_spot_without_its_price_or_without_any_is_refused(ask, prices):
    with pytest.raises(BadInput, match="no spot price of A100-80GB, and none is guessed"):
        spot.answer(ask("spot", prices(offer(4.0))))
    with pytest.raises(BadInput, match="no on_demand price of A100-80GB at us"):
        spot.answer(ask("spot", prices(offer(1.0, "spot"))))
    with pytest.raises(BadInput, match="prices: a value is missing"):
        spot.answer(ask("spot"))


def test_offers_are_ranked_by_their_bill_and_ranks_between_gpus_need_more_than_noise(ask, prices):
    offers = prices(offer(4.0), offer(3.0, provider="them"), offer(6.0, gpu="H100-80GB"))
    clusters = "comparing.clusters=[a100_80gb,h100_80gb]"
    sure = cheapest.answer(ask("cheapest", offers, clusters))
    unsure = cheapest.answer(ask("cheapest", offers, clusters, "playing.sigma=0.5"))

    bills = dict(zip(column(sure.sheets[0], "offer"), column(sure.sheets[0], "bill EUR"), strict=True))
    assert bills["A100-80GB at us"] == pytest.approx(4 / 3 * bills["A100-80GB at them"])
    assert list(bills.values()) == sorted(bills.values())
    assert "holds against the next" in sure.sentences[1]
    assert "not separable from" in unsure.sentences[1]
    assert any("not a quote" in line for line in sure.sentences)
    check_plain(sure)


def test_a_gpu_without_a_price_refuses_the_comparison(ask, prices):
    with pytest.raises(BadInput, match="no on_demand price of H200, and none is guessed"):
        cheapest.answer(ask("cheapest", prices(offer(4.0)), "comparing.clusters=[a100_80gb,h200]"))


def test_what_to_charge_leaves_its_margin_and_lengths_add_up_to_the_cost(ask, prices):
    answer = price.answer(ask("price", prices(offer(3.6)), "selling.margin=0.2", "selling.market=[1000,1e-6]"))
    cost, charge = figure(answer, "cost of tokens").value, figure(answer, "to charge").value
    lengths = answer.sheets[0]

    assert charge == pytest.approx(cost / 0.8)
    weighed = zip(column(lengths, "% of tokens"), column(lengths, "cost EUR/Mtok"), strict=True)
    assert sum(share / 100 * each for share, each in weighed) == pytest.approx(cost)
    used = figure(answer, "fleet efficiency").value / 100
    assert cost == pytest.approx(figure(answer, "ideal cost").value / used)  # what is lost is what it costs more
    assert figure(answer, "margin at 1000").value == pytest.approx(100 * (1 - cost / 1000))
    assert answer.verdict == "undecided"  # one market price pays, the other does not
    check_plain(answer)


def test_a_margin_that_is_none_is_refused_before_anything_is_played(ask, prices):
    with pytest.raises(BadInput, match="margin is 1"):
        price.answer(ask("price", prices(offer(3.6)), "selling.margin=1"))
    with pytest.raises(BadInput, match="market is -1"):
        price.answer(ask("price", prices(offer(3.6)), "selling.market=[-1]"))


def test_a_steady_demand_is_reserved_and_a_rare_peak_is_not(ask, prices, tmp_path):
    """Ten days of 8 GPUs and one hour of 8 more: reserved at 40 % off, 8 GPUs cost 1,920 h x 8 x 0.6."""
    jobs = {"submit_s": [100.0, 3700.0], "duration_s": [864_000.0, 3600.0], "gpus": [8.0, 8.0]}
    table = pa.table(jobs)
    pq.write_table(table, tmp_path / "jobs.parquet")
    text = "submit_s,duration_s,gpus,tenant\n" + "".join(
        f"{at},{took},{gpus},vc\n" for at, took, gpus in zip(*jobs.values(), strict=True)
    )
    (tmp_path / "jobs.csv").write_text(text)
    answers = [
        mix.answer(ask("mix", prices(offer(1.0)), f"mix.demand={tmp_path / name}", "mix.discount=0.4"))
        for name in ("jobs.csv", "jobs.parquet")
    ]

    assert answers[0].figures == answers[1].figures
    assert figure(answers[0], "reserved").value == 8
    assert figure(answers[0], "bill").value == pytest.approx(240 * 8 * 0.6 + 8)
    assert figure(answers[0], "bill").low is not None
    assert figure(answers[0], "regret at 1 times the demand").value == 0
    check_plain(answers[0])


def test_a_reserved_price_is_never_guessed_and_a_bad_demand_is_named(ask, prices, tmp_path):
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,duration_s,gpus\n0,3600,1\n0,-5,1\n")
    with pytest.raises(BadInput, match=r"no reserved price of A100-80GB at us; give mix\.discount"):
        mix.answer(ask("mix", prices(offer(1.0)), f"mix.demand={path}"))
    with pytest.raises(BadInput, match="line 3: a duration or a number of GPUs is negative"):
        mix.answer(ask("mix", prices(offer(1.0)), f"mix.demand={path}", "mix.discount=0.4"))
    path.write_text("submit_s,gpus\n0,1\n")
    with pytest.raises(BadInput, match="column duration_s is missing"):
        mix.answer(ask("mix", prices(offer(1.0)), f"mix.demand={path}", "mix.discount=0.4"))
    with pytest.raises(BadInput, match=r"mix\.demand: a value is missing"):
        mix.answer(ask("mix", prices(offer(1.0)), "mix.discount=0.4"))


def test_a_reserved_row_is_used_where_no_discount_is_given(ask, prices):
    asked = ask("mix", prices(offer(1.0), offer(0.7, "reserved")))
    found = priced_of(asked)

    assert mix.reserved_rate(asked, found.price, found.book) == (0.7, found.book.offers[1].cited)


LOADED = ("churn.admit.most=1", "load.points=3", "load.halvings=1", "budget=500 steps")


def test_the_load_is_the_most_that_keeps_the_promise_and_less_than_the_work_allows(ask):
    answer = max_load.answer(ask("max-load", "slo.wait_p95=1h", "playing.sigma=0", *LOADED))
    words = column(answer.sheets[0], "promise")
    rates = column(answer.sheets[0], "tenants/day")

    assert answer.verdict == "feasible"
    assert words[0] == "kept"
    assert words[-1] != "kept"
    assert figure(answer, "largest load").value == max(
        rate for rate, word in zip(rates, words, strict=True) if word == "kept"
    )
    assert figure(answer, "largest load").value < figure(answer, "what the work alone allows").value
    check_plain(answer)


def test_a_queue_at_half_its_service_rate_waits_as_the_textbook_says(ask):
    """M/G/1 with two kinds of service (Pollaczek and Khinchine): mean wait of 2,000 tenants within a quarter."""
    asked = ask("max-load", "slo.wait_p95=1h", *LOADED, "load.tenants=2000")
    stream = max_load.stream_of(asked)
    service = [record.finish_seconds - record.start_seconds for record in stream.play(1.0).records]
    mean, square = sum(service) / len(service), sum(each**2 for each in service) / len(service)
    history = stream.play(0.5 * 86_400 / mean)
    waits = [record.wait_seconds for record in history.records]

    assert sum(waits) / len(waits) == pytest.approx(0.5 / mean * square / (2 * (1 - 0.5)), rel=0.25)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ((), "slo: nothing is promised"),
        (("slo.wait_p95=1h",), "everybody begins at once as long as memory lasts"),
        (("slo.finish_p95=1h", "load.tenants=10"), "load: tenants must be 250 or more"),
    ],
)
def test_a_load_without_a_promise_that_can_break_is_refused(ask, keys, message):
    with pytest.raises(BadInput, match=message):
        max_load.answer(ask("max-load", *keys))


def test_the_same_question_has_the_same_answer(ask, prices):
    asked = ask("spot", prices(offer(4.0), offer(1.0, "spot")), SLOW)

    assert spot.answer(asked).as_dict() == spot.answer(replace(asked)).as_dict()


def test_a_run_tells_who_pays_more_than_alone_and_what_became_of_the_quotes(ask):
    """Who stays behind is billed more than quoted, who leaves first what it was told; shares of a step by hand."""
    asked = ask("run", "rule=tokens", "+budgets.dolly_15k=50 steps", "budget=500 steps")
    answer = run.answer(asked)
    sheet = next(each for each in answer.sheets if each.title == "quotes and bills, rule tokens")
    billed, alone, more, changed = (
        dict(zip(column(sheet, "tenant"), column(sheet, name), strict=True))
        for name in ("billed GPU h", "alone GPU h", "over alone %", "change %")
    )

    assert more["dolly_15k"] == pytest.approx(100 * (billed["dolly_15k"] / alone["dolly_15k"] - 1))
    assert abs(changed["dolly_15k"]) < 1 < abs(changed["commitpackft"])
    assert any("Under the rule tokens" in line for line in answer.sentences)
