"""A certificate in one line that a person understands."""

from lobra.plan import Certificate


def certificate_line(certificate: Certificate) -> str:
    """What is expected, what is proven and of which plans, and what that rests on."""
    bound = certificate.bound_seconds
    proven = "nothing proven"
    if 0 < bound < float("inf"):
        proven = f"proven at least {bound:.3f} s, a gap of {100 * certificate.gap:.2f} %{_bubbles(certificate)}"
    return (
        f"certificate: {certificate.expected_seconds:.3f} s a step expected; {proven} "
        f"({certificate.bound}{_kinds(certificate)}); {certificate.solver}, {certificate.status}, "
        f"seed {certificate.seed}{f'; {certificate.notice}' if certificate.notice else ''}"
    )


def _bubbles(certificate: Certificate) -> str:
    """How much of the gap is waiting in pipelines, which the bound leaves out."""
    if certificate.bubble_gap <= 0:
        return ""
    return f", {100 * certificate.bubble_gap:.2f} of which is waiting in pipelines of full micro-batches"


def _kinds(certificate: Certificate) -> str:
    """How many kinds of replicas there were, and were worth having."""
    if certificate.kinds is None:
        return ""
    return f"; {certificate.kinds} kinds, {certificate.undominated} after pruning"
