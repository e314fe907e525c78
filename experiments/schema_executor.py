"""Mutable twins of what concerns the executor: its backend, and the verbs around real runs."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class Data:
    """Where the executor's tokens come from."""

    kind: str = "auto"  # auto: the tenants' stores where they have any, else patterns; synthetic, patterns, store
    path: str | None = None  # for store: the folder that holds a store for each tenant
    seed: int = 0  # for synthetic and patterns


@dataclass
class Torch:
    """The executor: real ranks over torch.distributed."""

    kind: str = "torch"
    launcher: str = "own"  # torchrun; attached: somebody else starts the ranks
    resume: bool = True
    device: str = "auto"
    dtype: str = "float32"
    attention: str = "auto"
    lora: str = "loop"
    weights_seed: int = 0  # of a random model
    data: Data = field(default_factory=Data)
    total_updates: int | None = None  # of a tenant, for schedules that decay; none given: the run's steps
    quarantine_after: int = 3
    bucket_bytes: int = 67108864  # of a tenant's gradient that are reduced at a time
    threads: int = 1
    deadline_seconds: float = 120.0
    setup_seconds: float = 600.0
    rendezvous_seconds: float = 60.0
    grace_seconds: float = 30.0
    checkpoint_steps: int = 100
    checkpoint_seconds: float = 600.0
    keep: int = 2


@dataclass
class Prepare:
    """`lobra prepare TEXT`: JSON lines and a tokenizer made into a token store."""

    text: str = MISSING
    tokenizer: str = MISSING
    fields: list[str] = field(default_factory=list)
    template: str | None = None
    turns: str | None = None  # the field that holds the turns of a conversation
    begin: str | None = None
    end: str | None = None
    limit: int | None = None  # tokens to which longer sequences are cut
    store: str | None = None  # the folder to make; none given: `store` in run_dir
    run_dir: str | None = None


@dataclass
class Grid:
    """What a profile measures."""

    tp: list[int] = field(default_factory=lambda: [1, 2])
    recompute: list[int] = field(default_factory=lambda: [0])
    lengths: list[int] = field(default_factory=lambda: [16, 64, 256])
    rows: list[int] = field(default_factory=lambda: [1, 2, 4])
    packs: list[list[int]] = field(default_factory=lambda: [[64, 32, 16, 8], [200, 20, 20, 16]])  # lengths of each
    largest: int = 1024  # tokens; larger micro-batches are left out
    repeats: int = 3


@dataclass
class Tenants:
    """The adapters whose kernels run in a profile."""

    count: int = 4
    rank: int = 8


@dataclass
class Fit:
    """`lobra fit SAMPLES`: coefficients from a profile."""

    samples: str = MISSING
    max_tokens: int | None = None  # of a micro-batch; none given: from the profile's bytes and the memory of a rank
    memory_gib: float | None = None  # of a rank, with the profile's bytes; none given: what was stated when profiling
    prior: str | None = None  # a source of layer times of this model: fit alpha and beta to it instead of its own form
    gpu: str | None = None  # these three are needed for a table tp, seq_len, mbs, time
    model_name: str | None = None
    source: str | None = None
    run_dir: str | None = None


@dataclass
class Validate:
    """`lobra validate RUN`: what the simulator says of a run that the executor played."""

    run: str = MISSING
    group: int = 0
    samples: str | None = None  # of an earlier profile of this machine; none given: a short one is made
    repeats: int = 3  # of that profile
    again: int = 1  # times that the run is played once more, for the noise of its steps
    backend: Any = MISSING  # the simulator: with noise as fitted, or shared cores
    draws: int = 0  # of prices that may be the truth, and of noise, for an interval of each step; 0: none, 50 is enough
    run_dir: str | None = None
