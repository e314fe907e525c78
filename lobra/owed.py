"""What was drawn and is not trained yet: every sequence exactly once, however step plans cut and mix the batches."""

from collections import Counter

from lobra.batch import Batch
from lobra.errors import BadInput
from lobra.plan import StepPlan
from lobra.spec import SequenceRef


class Owed:
    """Keeps account over a stream of batches and step plans.

    A batch may be spread over several step plans, and a step plan may hold sequences of later batches too. Where a step
    plan flushes the pipelines, nothing of its batch or of earlier ones may be left.
    """

    __slots__ = ("_batches",)

    def __init__(self) -> None:
        self._batches: dict[int, Counter[SequenceRef]] = {}  # by step, in the order of drawing

    def draw(self, batch: Batch) -> None:
        """These sequences must be trained."""
        self._batches[batch.step] = Counter(batch.refs())

    def train(self, step: StepPlan) -> None:
        """These are; BadInput where one of them was not drawn, or was trained before, or where one is left behind."""
        extra = Counter(
            sequence
            for replica, work in enumerate(step.work)
            for microbatch in work
            if not microbatch.group or microbatch.group[0] == replica
            for row in microbatch.rows
            for sequence in row
        )
        for number, owed in list(self._batches.items()):
            if not extra:
                break
            self._batches[number], extra = owed - extra, extra - owed
        self._refuse(step.step, self._left(step.step if step.drain else -1), extra)

    def settle(self) -> None:
        """The stream is over: BadInput where anything is left."""
        if self._batches:
            last = max(self._batches)
            self._refuse(last, self._left(last), Counter())

    def _left(self, until: int) -> Counter[SequenceRef]:
        """What is left of the batches up to a step; they are forgotten."""
        lost: Counter[SequenceRef] = Counter()
        for number in [number for number in self._batches if number <= until]:
            lost += self._batches.pop(number)
        return lost

    @staticmethod
    def _refuse(step: int, lost: Counter[SequenceRef], extra: Counter[SequenceRef]) -> None:
        if lost or extra:
            example = next(iter(lost or extra))
            raise BadInput(f"step {step}: {lost.total()} sequences lost, {extra.total()} too many, such as {example}")
