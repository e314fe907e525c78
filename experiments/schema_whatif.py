"""Mutable twins of what a question about capacity is asked with.

Durations are texts such as 8h, 90m, 1h30m or 2d, or plain seconds; budgets are texts such as 800 steps, 5e6 tokens or
3 epochs, or plain steps (`experiments.whatif.words`).
"""

from dataclasses import dataclass, field

from experiments.schema_money import Comparing, Loading, Mixing, Selling, Spotting


@dataclass
class Slo:
    """What is promised; durations."""

    finish_p95: str | None = None  # from arrival to the last step
    wait_p95: str | None = None  # from arrival to the first step


@dataclass
class Arriving:
    """When tenants come."""

    kind: str = "together"  # everybody at the beginning; or poisson, bursts, trace
    per_hour: float | None = None  # for poisson and bursts
    horizon: str = "7d"  # nobody comes later
    variation: float = 5.0  # of the gaps of bursts: standard deviation over mean
    file: str | None = None  # for trace: a CSV of jobs
    rejected: str = "refuse"  # lines of a trace that cannot be used: refuse or skip
    most: int | None = None  # of a trace, the first so many jobs; none given: all
    budget_sigma: float = 0.0  # of the logarithm: budgets vary about those given


@dataclass
class Admitting:
    """Who may begin."""

    order: str = "arrival"  # or fair, deadline, priority
    most: int | None = None  # tenants that train at once
    slowdown: float | None = None  # a joint step over the tenant's own alone, at most
    backfill: bool = True  # who does not fit is passed over
    keeps_plan: bool = False  # nobody begins for whom the running plan would have to move


@dataclass
class Churn:
    """What happens to the deployment when tenants come and leave."""

    rule: str = "hysteresis"  # or never, on_change, periodic
    period: str | None = None  # for periodic: a decision every so often
    horizon: int = 1000  # steps in which a move must pay
    factor: float = 2.0  # how many times its cost a move must save
    plays: int = 0  # plans played at most on the way between the running and the best new plan
    start: str = "0s"  # of the first deployment: reading the base model, warm-up
    planning: str = "0s"  # of every re-planning that training does not hide
    checkpoint: str = "0s"  # of every re-deployment: adapters and optimiser states, written and read
    reshard: str | None = None  # of reading the base model anew; none given: live, by what moves over the links
    warmup: str = "0s"  # of every re-deployment: process groups, first steps
    admit: Admitting = field(default_factory=Admitting)


@dataclass
class Playing:
    """How well steps are known."""

    batches: int = 4  # played a tenant set; the steps of a seed are drawn from them
    grain: int | None = None  # plans are sought for at most about so many tenants in the same mix
    sigma: float | None = None  # of the logarithm of all prices, drawn once a seed; none given: by what they rest on


@dataclass
class Sizes:
    """GPUs that are tried."""

    least: int | None = None  # none given: from the work bound up
    most: int = 64
    only: list[int] = field(default_factory=list)  # these alone; empty: every multiple of the granularity


@dataclass
class Newcomer:
    """One more tenant; its name is the key `tenant`."""

    batch_size: int | None = None  # none given: as the file or the catalogue says
    context_limit: int | None = None
    budget: str | None = None  # none given: the key `budget`
    at: str = "0s"  # when it comes


@dataclass
class Asking:
    """Everything that a question may need beside a world and a policy; each question says what it uses."""

    question: str = ""  # the first word; none given: refused with all there are
    seeds: int = 60  # plays; 59 are needed to bound a p95 without assuming its law
    budget: str = "1000 steps"  # of a tenant that `budgets` does not name
    budgets: dict[str, str] = field(default_factory=dict)  # by tenant
    arrivals: Arriving = field(default_factory=Arriving)
    churn: Churn = field(default_factory=Churn)
    playing: Playing = field(default_factory=Playing)
    slo: Slo = field(default_factory=Slo)
    sizes: Sizes = field(default_factory=Sizes)
    rule: str = "work"  # of accounting: tokens, work or shapley
    prices: str | None = None  # a shipped price file's name or a path; none given: no dollars
    provider: str | None = None  # none given: the cheapest that offers this GPU
    offer: str = "on_demand"  # or spot, reserved
    tenant: str | None = None  # for add-tenant: a set of the catalogue, or a YAML of one tenant
    newcomer: Newcomer = field(default_factory=Newcomer)
    run: str | None = None  # for validate: a directory that the executor played
    samples: str | None = None  # for validate: a profile of that machine
    vary: list[str] = field(default_factory=list)  # for sensitivity: which assumptions; empty: all
    of: str = "run"  # for sensitivity: the question whose decision may flip
    by: float = 0.1  # for sensitivity: how much each assumption is off
    spot: Spotting = field(default_factory=Spotting)  # for spot
    comparing: Comparing = field(default_factory=Comparing)  # for cheapest
    selling: Selling = field(default_factory=Selling)  # for price
    mix: Mixing = field(default_factory=Mixing)  # for mix
    load: Loading = field(default_factory=Loading)  # for max-load
