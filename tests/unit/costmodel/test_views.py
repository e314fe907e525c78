"""Both views of one profile in one source."""

import numpy as np
import pytest

from costmodel.fit import source_document
from costmodel.profile import Profile, fit_profile
from costmodel.sources import FOLDER, read_source
from costmodel.views import read_views, view_body, view_note
from lobra.errors import BadInput

SHARE = {"linear": 0.4, "attention": 0.25}
S, B = (
    np.array(values, np.float64)
    for values in zip(*((s, b) for s in (128, 512, 1024, 4096, 8192) for b in (1, 2, 8)), strict=True)
)


def profile(seconds) -> Profile:
    return Profile(2, S, B * S, B * S**2, seconds, rows=B)


LINE = 2e-3 + 4e-6 * B * S + 1e-10 * B * S**2


def test_where_the_floor_form_is_the_truth_the_views_agree():
    body = view_body(profile(LINE), fit_profile(profile(LINE)))

    assert body["view_difference"] == {"mean": 0.0, "largest": 0.0}
    assert body["simulator"]["mean_error"] == 0.0


def test_what_the_planner_cannot_see_is_recorded():
    bent = LINE * np.where(B * S > 1024, 1.0, 0.7)  # no convex form follows it
    body = view_body(profile(bent), fit_profile(profile(bent)))

    assert body["simulator"]["mean_error"] < body["view_difference"]["mean"]
    assert body["view_difference"]["largest"] > 0.05


def test_directions_timed_apart_have_curves_of_their_own():
    forward, backward = 0.3 * LINE, 0.7 * LINE
    fit = fit_profile(profile(LINE))
    fits = [{"tp": 2, **view_body(profile(LINE), fit, (profile(forward), profile(backward)))}]

    views = read_views({"forward_share": SHARE, "fits": fits}, {2: 1.0})

    assert views[2].forward.of(profile(LINE)) == pytest.approx(forward, rel=1e-5)
    assert views[2].backward.of(profile(LINE)) == pytest.approx(backward, rel=1e-5)


def test_a_sum_is_divided_by_the_forward_shares():
    document = source_document([profile(LINE)], {"forward_share": SHARE})

    (view,) = read_views(document, {2: 3.0}).values()

    assert view.forward.of(profile(LINE)) == pytest.approx(3 * (0.4 * (LINE - 1e-10 * B * S**2) + 0.25e-10 * B * S**2))
    assert view.forward.of(profile(LINE)) + view.backward.of(profile(LINE)) == pytest.approx(3 * LINE)


def test_a_source_without_curves_is_refused():
    document = source_document([profile(LINE)], {"forward_share": SHARE})
    del document["fits"][0]["simulator"]

    with pytest.raises(BadInput, match="tp 2 has no curves"):
        read_views(document, {2: 1.0})


def test_the_reader_is_told_how_far_the_views_are_apart():
    source = read_source(FOLDER / "llama2_7b_a100_40gb_floor.yaml")

    assert view_note(source) == (
        "simulated with knots, planned with the floor form, which differs by tp 1 1.3% (at most 3.0%), "
        "tp 2 0.6% (at most 1.8%), tp 4 0.8% (at most 2.5%), tp 8 2.7% (at most 5.3%)"
    )
