"""The paper's authors' own profile of one layer: Llama-2-7B on A100-40GB, 250 points, tp 1 to 8."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from costmodel.fit import read_profile
from costmodel.profile import Profile, fit_tied
from fidelity.forms import VIEWS, Form
from fidelity.rows import Held, Row, held_out, joined, leave_out, row
from fidelity.tables import present
from lobra.batch import Array

FILE = "peer_lobra/profile_time_7B_real_A100-40G.csv"
BARS = {"solver view": 0.037, "simulator view": 0.034}
NOISE = "one layer, tp 1, 2,048 tokens: 12.5 ms by Table 3, 13.9 by Table 9, 14.6 in the profile"
FITTED = "a curve a tp to all other lengths; the length itself was never seen"


def rows(reference_data: Path) -> list[Row]:
    """Leave one length out by both views; the two sessions; the longest length from the others."""
    profiles = read_profile(present(reference_data / FILE))
    found = []
    for name, form in VIEWS.items():
        held = joined([one_length_out(profile, form) for profile in profiles])
        label = f"LobRA 7B profile, one length left out: {name}"
        found.append(row(label, held, BARS[name], FITTED, noise=NOISE))
    return [*found, sessions(profiles[0]), *(longest(profiles[-1], name) for name in VIEWS), tied(profiles)]


def one_length_out(profile: Profile, form: Form) -> Held:
    """Every length predicted from the others."""

    def predict(mask: Array) -> Array:
        return form(profile.part(~mask))(profile.part(mask))

    predicted = held_out(len(profile.seconds), leave_out(profile.lengths.tolist()), predict)
    return Held(predicted, profile.seconds, (f"tp {profile.tp}",) * len(predicted), profile.tokens)


def sessions(profile: Profile) -> Row:
    """How far apart the two measuring sessions are: lengths that are powers of two, and the others."""
    powers = np.log2(profile.lengths) % 1 == 0
    errors = VIEWS["solver view"](profile)(profile) / profile.seconds - 1
    first, second = float(errors[powers].mean()), float(errors[~powers].mean())
    held = Held(
        VIEWS["solver view"](profile)(profile),
        profile.seconds,
        tuple("powers of two" if power else "other lengths" for power in powers),
        profile.tokens,
    )
    return Row(
        "LobRA 7B profile, tp 1: its two measuring sessions",
        second - first,
        None,
        len(errors),
        "one curve to both sessions, in sample; the figure is the difference of their mean signed errors",
        held,
        repeat_noise=NOISE,
        out_of_sample=False,
        beside={"powers of two, mean signed error": first, "other lengths, mean signed error": second},
    )


def longest(profile: Profile, name: str) -> Row:
    """The longest length of the largest tp, from all shorter ones."""
    far = profile.lengths == profile.lengths.max()
    predicted = VIEWS[name](profile.part(~far))(profile.part(far))
    held = Held(predicted, profile.seconds[far], (f"tp {profile.tp}",) * int(far.sum()), profile.tokens[far])
    label = f"LobRA 7B profile, extrapolated to {profile.lengths.max():.0f} tokens at tp {profile.tp}: {name}"
    return row(label, held, None, "a curve to all shorter lengths", noise=NOISE)


def tied(profiles: Sequence[Profile]) -> Row:
    """The same, attention's part tied over tp: the smaller tp tell what long sequences cost."""
    last = profiles[-1]
    far = last.lengths == last.lengths.max()
    fit = fit_tied([*profiles[:-1], last.part(~far)])[-1]
    held = Held(fit.seconds(last.part(far)), last.seconds[far], (f"tp {last.tp}",) * int(far.sum()), last.tokens[far])
    label = f"LobRA 7B profile, extrapolated to {last.lengths.max():.0f} tokens at tp {last.tp}: solver view, tied"
    return row(label, held, None, "a curve to all shorter lengths, square times tp the same for every tp", noise=NOISE)
