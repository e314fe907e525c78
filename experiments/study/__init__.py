"""The study: published figures derived again, and the questions beside them, as experiments that can be repeated.

`lobra study experiment=NAME sweep=smoke|paper seed=0 jobs=2 run_dir=OUT` plays the points of one study, each into
`OUT/points/POINT`, and collects them in `OUT/study.json`, from which follow its table (`NAME.csv`), what it says
(`NAME.txt`) and its figure (`NAME.pdf`, of the long sweep `NAME.png` too). `lobra figure NAME run=OUT` draws the figure
again from these results alone. A second start skips finished points; a point that fails is recorded and does not stop
the others.

A study is a module of this package with four functions:

    points(sweep: str) -> tuple[Point, ...]      what is played; sweep: "smoke" (seconds) or "paper" (minutes)
    table(results: Results) -> Rows              a list of dicts with equal keys; cells: text, numbers, None
    figure(results: Results) -> Figure | None    by the helpers of `style`; None where there is none
    notes(results: Results) -> tuple[str, ...]   sentences: verdicts, what is derived, what is left out

beside its line in `catalogue.study_of` and a file `conf/experiment/NAME.yaml` that holds `study: NAME`. `results` maps
each point's name to what its work gave; points that failed are absent, so all three have to do without any of them.
The last three are pure: the same results give the same bytes.

A point (`point.Point`) is a name, overrides of `lobra compare`, policies, and a work: a function of a module, called
with the composed job, an empty folder and the point's options, that returns plain data (what JSON can hold, no NaN, no
wall clock). What it measures of time goes under the key "wall", which is kept apart in `OUT/wall.json` and is in
`results` again when tables are made. The default work is `playing.compared`: play all policies on the same batches and
return what `lobra compare` writes into summary.json. A finished point is taken for finished only as long as its
configuration, its options and the code that made it (all rooms below `experiments`, and every module under the roof
that its work uses) are the same. Works take chance from `job.config.seed` alone.
"""
