"""What was found on this machine, as JSON and on the screen."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fidelity.machine_verdict import Steps, drift, errors, pairs, repeat_noise, tau, winner


def figures(steps: Sequence[Steps]) -> dict[str, Any]:
    """All figures of one prediction; None where a single round leaves a figure open."""
    found, off = pairs(steps), np.abs(errors(steps))
    noise, (measured, predicted) = repeat_noise(steps), winner(steps)
    return {
        "step_error": float(off.mean()),
        "median_error": float(np.median(off)),
        "largest_error": float(off.max()),
        "bias": float(errors(steps).mean()),
        "repeat_noise": None if np.isnan(noise) else noise,
        "rounds_against_median": drift(steps),
        "kendall_tau": tau(found),
        "tau_of_decided": tau([pair for pair in found if pair.decided]) if any(p.decided for p in found) else None,
        "pairs": len(found),
        "within_noise": [f"{pair.faster} / {pair.slower}" for pair in found if not pair.decided],
        "disagreed": [f"{pair.faster} / {pair.slower}" for pair in found if not pair.agreed],
        "winner": measured,
        "predicted_winner": predicted,
    }


def table(steps: Sequence[Steps]) -> list[dict[str, Any]]:
    """Each policy: seconds of a batch, measured (and its rounds) and predicted; fastest first."""
    rows = []
    for each in sorted(steps, key=lambda one: float(one.typical.sum())):
        off = np.abs(each.predicted / each.typical - 1)
        rows.append(
            {
                "policy": each.policy,
                "measured_seconds": each.measured.tolist(),
                "predicted_seconds": each.predicted.tolist(),
                "step_error": float(off.mean()),
            }
        )
    return rows


def steps_of(rows: Sequence[Mapping[str, Any]]) -> list[Steps]:
    """What `table` was made of."""
    return [Steps(row["policy"], np.array(row["measured_seconds"]), np.array(row["predicted_seconds"])) for row in rows]


def show(body: Mapping[str, Any]) -> None:
    """The table, the figures, and what a reader must know of the machine."""
    told, batches = body["figures"], body["batches"]
    print(f"{'policy':28}{'measured s/batch':>17}{'rounds':>18}{'predicted':>11}{'error':>8}{'step error':>12}")
    for row, each in zip(body["policies"], steps_of(body["policies"]), strict=True):
        typical, predicted = float(each.typical.sum()) / batches, float(each.predicted.sum()) / batches
        rounds = each.measured.sum(axis=1) / batches
        spread = f"{rounds.min():.3f}..{rounds.max():.3f}"
        line = f"{row['policy']:28}{typical:17.3f}{spread:>18}{predicted:11.3f}{predicted / typical - 1:+8.1%}"
        print(f"{line}{row['step_error']:12.1%}")
    noise = "not known" if told["repeat_noise"] is None else f"{told['repeat_noise']:.1%}"
    print(
        f"mean error of a step {told['step_error']:.1%} (median {told['median_error']:.1%}, largest "
        f"{told['largest_error']:.1%}, bias {told['bias']:+.1%}); two plays of the same step differ by {noise}"
    )
    _order(told)
    for other in body["other_predictions"]:
        figures_ = f"mean error of a step {other['step_error']:.1%}, bias {other['bias']:+.1%}"
        print(f"{other['name']}: {figures_}, Kendall's tau {other['kendall_tau']:.2f}")
    rounds = ", ".join(f"{share - 1:+.1%}" for share in told["rounds_against_median"])
    sittings = ", ".join(f"{share - 1:+.1%}" for share in body["sittings_against_median"])
    print(f"rounds against their median: {rounds}; sittings of the profile against theirs: {sittings}")
    loads = ", ".join(f"{load:.1f}" for load in body["loads"])
    print(f"{body['place']['ranks']} ranks on {body['place']['cores']} cores; load after each sitting {loads}")


def _order(told: Mapping[str, Any]) -> None:
    decided = "" if told["tau_of_decided"] is None else f", {told['tau_of_decided']:.2f} over pairs beyond the noise"
    print(f"order of {told['pairs']} pairs: Kendall's tau {told['kendall_tau']:.2f}{decided}")
    for name, what in (("within_noise", "within noise (rounds disagree)"), ("disagreed", "predicted the other way")):
        if told[name]:
            print(f"    {what}: {'; '.join(told[name])}")
    same = "yes" if told["winner"] == told["predicted_winner"] else f"no: {told['predicted_winner']} was predicted"
    print(f"same winner ({told['winner']}): {same}")
