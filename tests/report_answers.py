"""Answers as the questions of capacity give them: every kind of chart, missing values, hostile tenant names."""

from experiments.whatif.answer import Answer, Chart, Figure, Series, Sheet

HOSTILE = (
    "<b>x</b>",
    "a&b",
    "</script><script>alert(1)</script>",
    '"quote"',
    "日本語",
    "n" * 300,
    "'><img src=x onerror=alert(1)>",
    "=cmd()",
    "-x",
    "&lt;i&gt;",
    "<!--<script>",
    "%{y} ${x} {{x}}",
)  # twelve tenants; the first six are those of public case S16


def answer(names: tuple[str, ...] = HOSTILE, **changed: object) -> Answer:
    """Everything at once."""
    given: dict[str, object] = {
        "question": "run",
        "asks": f"What does {names[0]} take?",
        "verdict": "undecided",
        "sentences": (f"All but {names[2]} finish.", f"{names[4]} is last."),
        "figures": (
            Figure("all finished, p50", 6.829, "h", 6.14, 7.01, samples=60),
            Figure(f"finish of {names[1]}", None, "h", note="p95 needs 59 plays"),
            Figure("tokens", 63861.7, "tokens/s", None, 70000.0, samples=60),
            Figure("tenants", len(names), "tenants"),
        ),
        "sheets": (
            Sheet(
                "by tenant",
                ("tenant", "finish p95 h", "cost USD", "slowdown", "note"),
                tuple((name, 1.5 + i, None if i == 3 else 10.25 * i, 1.1, names[2]) for i, name in enumerate(names)),
            ),
            Sheet(f"of {names[0]}", ("what", "h"), (("nothing", None),)),
        ),
        "charts": charts(names),
        "basis": "roofline",
        "extrapolated": True,
        "provenance": {"seeds": "0 to 59", "price": f"{names[3]} 2.69 USD per GPU hour, read on 2026-11-09"},
        "exit_code": 4,
        "extra": {"tenant": names[2]},
    }
    return Answer(**(given | changed))  # type: ignore[arg-type]


def charts(names: tuple[str, ...] = HOSTILE) -> tuple[Chart, ...]:
    """One of each kind, the frontier beside; the last holds no value."""
    sizes, count = (8, 16, 32, 64), len(names)
    frontier = Series("frontier", (19.0, 9.5, 6.0, 4.5), (105.0, 110.0, 130.0, None), (90.0, 95.0, None, None),
                      (120.0, 125.0, None, None), tuple(f"{size} GPUs" for size in sizes))  # fmt: skip
    beaten = Series("beaten", (12.0,), (140.0,), text=(names[0],))
    ends = Series(
        "p50", names, tuple(float(i) for i in range(count)), (0.0,) * count, tuple(i + 1.0 for i in range(count))
    )
    tails = Series(names[2], names, (None, *(i + 2.0 for i in range(1, count))))
    return (
        Chart("line", "cost against finish", "finish p95, hours", "USD", (frontier, beaten), f"{names[2]} falls"),
        Chart("line", "by word", "who", "h", (Series("p50", names[:3], (1.0, None, 3.0)),), "three words"),
        Chart("bar", f"when {names[0]} finishes", "tenant", "hours", (ends, tails), "the last is last"),
        Chart(
            "stacked",
            "where GPU hours go",
            "",
            "GPU hours",
            (Series("useful", ("16 GPUs",), (80.0,)), Series("idle", ("16 GPUs",), (20.0,))),
            "80 % useful",
        ),
        Chart(
            "tornado",
            "what matters",
            "GPUs",
            "assumption",
            (
                Series("-10 %", ("lengths", "price", names[2]), (16.0, 19.0, None)),
                Series("+10 %", ("lengths", "price", names[2]), (25.0, 21.0, 20.5)),
                Series("as it is", ("lengths", "price", names[2]), (20.0, 20.0, 20.0)),
            ),
            "lengths matter most",
        ),
        Chart(
            "timeline",
            "one step",
            "seconds",
            "replica",
            (
                Series("forward", (0.0, 0.0, 1.5), (1.0, 0.5, 0.5), rows=("0: tp 2", "10: tp 1", "2: tp 1")),
                Series("backward", (1.0, 0.5), (2.0, 1.0), rows=("0: tp 2", "10: tp 1")),
            ),
            "three replicas",
        ),
        Chart("bar", "nothing known", "", "h", (Series("p95", ("a",), (None,)),), "no value is known"),
    )
