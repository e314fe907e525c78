"""The verb from outside: answers, files and exit codes, on two tenants and eight GPUs."""

import json

import pytest

from commands import check_refused, lobra

QUICK = (
    "cluster=a100_40gb",
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
    "budgets.dolly_15k=100 steps",
    "run_dir=OUT",
)


def asked(question, *more, cwd):
    done = lobra("whatif", question, *QUICK, *more, cwd=cwd)
    summary = cwd / "OUT" / "summary.json"
    return done, json.loads(summary.read_text()) if summary.is_file() else None


def figure(answer, name):
    return next(each for each in answer["figures"] if each["name"] == name)


def rows(answer, title):
    sheet = next(each for each in answer["sheets"] if each["title"] == title)
    return [dict(zip(sheet["columns"], row, strict=True)) for row in sheet["rows"]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """`run` without any noise or overhead, dollars asked for at A100 prices below a made-up file."""
    folder = tmp_path_factory.mktemp("ran")
    (folder / "prices.yaml").write_text(
        "schema: 1\nkind: prices\ncurrency: EUR\noffers:\n"
        "- {gpu: A100-40GB, provider: us, amount: 36, unit: gpu_hour, kind: on_demand, gpus_per_node: 8, "
        "source: a test, read_on: 2026-11-09}\n"
    )
    return asked("run", "prices=prices.yaml", "seeds=20", cwd=folder)


def test_without_noise_or_overheads_the_bill_is_hand_arithmetic(ran):
    done, answer = ran
    assert done.returncode == 0, done.stderr
    tenants = {row["tenant"]: row for row in rows(answer, "by tenant")}
    hours = tenants["commitpackft"]["finish p50 h"]

    assert (tenants["dolly_15k"]["steps"], tenants["commitpackft"]["steps"]) == (100, 1000)
    assert figure(answer, "all finished, p50")["value"] == pytest.approx(hours)
    assert figure(answer, "GPU hours")["value"] == pytest.approx(8 * hours)
    assert figure(answer, "bill")["value"] == pytest.approx(36 * 8 * hours)
    assert sum(row["GPU h"] for row in tenants.values()) == pytest.approx(8 * hours, rel=1e-9)
    assert sum(row["GPU h"] for row in rows(answer, "where GPU hours go")) == pytest.approx(8 * hours, rel=1e-9)
    assert tenants["dolly_15k"]["slowdown"] > 1 >= 0.99 * tenants["dolly_15k"]["wait h"]


def test_an_answer_is_a_whole_file_with_everything_a_report_draws(ran):
    done, answer = ran
    assert (answer["schema"], answer["kind"], answer["question"]) == (1, "answer", "run")
    assert {chart["kind"] for chart in answer["charts"]} == {"bar", "stacked", "timeline"}
    assert all(chart["tells"] for chart in answer["charts"])
    assert answer["provenance"]["price"].endswith("read 2026-11-09: a test")
    assert answer["sentences"][0] in done.stdout
    assert "wrote OUT/summary.json" in done.stdout


def test_the_smallest_size_is_the_first_whose_own_run_keeps_the_promise(tmp_path):
    """Without noise every size has one finish, so the answer can be looked up by running each size alone."""
    ends = {}
    for gpus in (1, 2, 3, 4):
        done, answer = asked("run", f"cluster.gpus_per_node={gpus}", "seeds=1", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        ends[gpus] = figure(answer, "all finished, p50")["value"]
    limit = (ends[2] + ends[3]) / 2
    done, answer = asked(
        "min-gpus",
        f"slo.finish_p95={limit * 3600}",
        "cluster.granularity=gpu",
        "sizes.most=4",
        "seeds=59",
        cwd=tmp_path,
    )

    assert done.returncode == 0, done.stderr
    expected = next(gpus for gpus in ends if ends[gpus] <= limit)
    assert figure(answer, "smallest number of GPUs")["value"] == expected
    assert [row["GPUs"] for row in rows(answer, "by size")][-1] == expected
    assert "Binding constraint" in done.stdout


def test_too_few_seeds_leave_a_p95_undecided(tmp_path):
    done, answer = asked("min-gpus", "slo.finish_p95=30d", "seeds=20", "sizes.most=8", cwd=tmp_path)

    assert (done.returncode, answer["verdict"]) == (4, "undecided")
    assert "Give more seeds (20 now)" in done.stdout


def test_an_impossible_deadline_is_infeasible_by_the_work_alone(tmp_path):
    done, answer = asked("min-gpus", "slo.finish_p95=1s", "seeds=3", cwd=tmp_path)

    assert (done.returncode, answer["verdict"]) == (3, "infeasible")
    assert "its work alone needs" in answer["sentences"][0]


def test_the_frontier_marks_every_size(tmp_path):
    done, answer = asked("frontier", "sizes.only=[2,4,8]", "seeds=2", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert [row["GPUs"] for row in rows(answer, "by size")] == [2, 4, 8]
    assert {row["verdict"] for row in rows(answer, "by size")} <= {"frontier", "beaten"}
    assert answer["charts"][0]["kind"] == "line"


def test_policies_are_compared_in_pairs_by_seed(tmp_path):
    done, answer = asked("compare", "policies=[task_sequential,lobra]", "seeds=20", "playing.sigma=0.2", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    ratio = figure(answer, "GPU hours, lobra / task_sequential")
    hours = {row["policy"]: row["GPU h"] for row in rows(answer, "by policy")}
    assert ratio["value"] == pytest.approx(hours["lobra"] / hours["task_sequential"], rel=0.02)
    assert ratio["high"] - ratio["low"] < 0.01, "the price factor of a seed is the same on both sides"


def test_one_more_tenant_delays_others_and_one_too_long_is_told_what_it_needs(tmp_path):
    done, answer = asked("add-tenant", "tenant=xsum", "newcomer.context_limit=2048", "seeds=20", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(row["ratio"] >= 0.999 for row in rows(answer, "finish by tenant") if row["ratio"] is not None)

    done, answer = asked(
        "add-tenant", "tenant=xsum", "newcomer.context_limit=12000", "cluster.gpus_per_node=1", "seeds=1", cwd=tmp_path
    )
    assert (done.returncode, answer["verdict"]) == (3, "infeasible")
    assert figure(answer, "longest admissible")["value"] < 12000
    assert "It needs tp" in answer["sentences"][1]


def test_more_work_takes_longer_and_the_widest_swing_comes_first(tmp_path):
    done, answer = asked("sensitivity", "vary=[links,work]", "by=0.2", "seeds=2", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    first, second = rows(answer, "by assumption")
    assert (first["assumption"], second["assumption"]) == ("work", "links")
    assert first["swing %"] == pytest.approx(40, rel=0.01)
    assert answer["charts"][0]["kind"] == "tornado"


def test_a_stream_of_tenants_is_told_by_kind(tmp_path):
    done, answer = asked(
        "run", "arrivals.kind=poisson", "arrivals.per_hour=20", "arrivals.horizon=1h", "seeds=2", cwd=tmp_path
    )

    assert done.returncode == 0, done.stderr
    assert {row["tenant"] for row in rows(answer, "by tenant")} <= {"dolly_15k", "commitpackft"}
    assert figure(answer, "finish, p95 of the tenants")["value"] > 0


def test_the_same_question_gives_the_same_bytes(tmp_path):
    first, answer = asked("run", "seeds=3", cwd=tmp_path)
    before = (tmp_path / "OUT" / "summary.json").read_bytes()
    second, _ = asked("run", "seeds=3", cwd=tmp_path)

    assert first.stdout == second.stdout
    assert before == (tmp_path / "OUT" / "summary.json").read_bytes()
    assert answer is not None


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nothing",), 2, ("question: there is no question 'nothing'", "min-gpus")),
        ((), 2, ("question: a value is missing", "add-tenant")),
        (("min-gpus",), 2, ("slo: nothing is promised",)),
        (("run", "slo.finish_p95=soon"), 2, ("slo.finish_p95 is 'soon'",)),
        (("run", "budgets.nobody=3"), 2, ("budgets: there is no tenant 'nobody'", "dolly_15k")),
        (("run", "churn.rule=sometimes"), 2, ("churn.rule is 'sometimes'", "hysteresis")),
        (("run", "arrivals.kind=poisson"), 2, ("arrivals.per_hour: a value is missing",)),
        (("run", "arrivals.kind=trace", "arrivals.file=negative.csv"), 2, ("line 3", "submit_s is negative")),
        (("run", "workload=own", "workload.file=twins.yaml"), 2, ("'Ann' and 'ann'", "differ by more than case")),
        (("run", "prices=prices.yaml"), 2, ("prices 'prices.yaml'", "cannot be read")),
        (("run", "prices=2026-11"), 2, ("there is no on_demand price of A100-40GB", "none is guessed")),
        (("validate",), 2, ("run: a value is missing",)),
        (("add-tenant",), 2, ("tenant: a value is missing",)),
        (("sensitivity", "vary=[mood]"), 2, ("vary: there is no assumption 'mood'",)),
        (("run", "cluster.gpus_per_node=1", "workload.max_length=16384"), 3, ("can never be admitted",)),
    ],
)
def test_bad_input_gets_one_clear_line(tmp_path, arguments, code, said):
    (tmp_path / "negative.csv").write_text("submit_s,tenant,steps\n0,ann,5\n-3,ben,5\n")
    source = "batch_size: 4, context_limit: 512, overlong: truncate, dataset: dolly_15k"
    (tmp_path / "twins.yaml").write_text(f"tenants:\n- {{name: Ann, {source}}}\n- {{name: ann, {source}}}\n")
    own = any(argument == "workload=own" for argument in arguments)
    usual = [each for each in QUICK if not (own and each.startswith(("workload", "budgets")))]
    given = {argument.partition("=")[0] for argument in arguments}
    usual = [each for each in usual if each.partition("=")[0] not in given]
    check_refused(lobra("whatif", *arguments, *usual, "seeds=2", cwd=tmp_path), code, *said)
