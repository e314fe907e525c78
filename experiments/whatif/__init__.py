"""Questions about capacity: `lobra whatif QUESTION experiment=team ...`, each answered by a module of its own.

A question is a module with one function

    answer(asked: Asked) -> Answer

beside two lines in `catalogue` (what it asks, and who answers). It prints nothing and writes nothing: the verb prints
the answer's sentences, figures and sheets and writes `summary.json`, which is `Answer.as_dict()`. BadInput (exit code
2) refuses a key, Infeasible (3) what no plan serves; an answer that is "no" carries exit_code 3, an undecided one 4.

`asking.Asked` holds all that was asked for, checked: `config` (every key of `experiments.schema_whatif.Asking` and of a
world; a question with keys of its own adds them there), `world`, `policy`, `offers` (tenants with budgets), `promise`
(slo.*, in seconds), `rule` of accounting, `seeds` (one play each; never drawn anew), `folder`. The same question
elsewhere: `resized(asked, gpus)`, `on_cluster(asked, cluster)`, `with_policy`, `with_workload`. `priced_of(asked)` is
the price of the cluster's GPUs, None where `prices` is not given: a question that needs dollars refuses then.

`playing.play(asked) -> Played` plays every seed: `histories` (one `History` a seed, of `sim.fleet`), `oracle` (plans
and step times, shared by all seeds), `factors` (by how much prices of work are off in a seed), `ground` (basis,
extrapolated, notes). `fragile`: how nodes are lost, one for each seed. The same seeds on another cluster or under
another policy have the same draws, so differences are paired by seed.

`numbers.quantile_figure` and `numbers.mean_figure` make figures from values of the seeds, with intervals only where so
many seeds can bear one. `standing.answered` fills in basis, provenance and exit code. `words.seconds_of` and
`budget_of` read durations and budgets.
"""
