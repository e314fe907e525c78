"""Can all stages play a step to its end? Shared micro-batches make replicas wait for each other."""

from dataclasses import dataclass

from lobra.errors import BadInput
from lobra.plan import DeploymentPlan, StepPlan
from lobra.schedule import Direction, one_forward_one_backward

Stage = tuple[int, int]  # replica, stage
Turn = tuple[Stage, Direction, int]  # who, what, which of its micro-batches


def check_order(plan: DeploymentPlan, step: StepPlan) -> None:
    """Refuse a step plan in which stages would wait for each other in a circle."""
    if not any(microbatch.group for work in step.work for microbatch in work):
        return  # replicas that share nothing only follow the schedule, which cannot hang
    rehearsal = _Rehearsal.of(plan, step)
    while sum(map(rehearsal.play, rehearsal.scores)):
        pass
    for at, score in rehearsal.scores.items():
        if rehearsal.done[at] < len(score):
            direction, number = score[rehearsal.done[at]]
            raise BadInput(
                f"step {step.step}: stage {at[1]} of replica {at[0]} would wait for ever at the {direction} of "
                f"micro-batch {number}; put the shared micro-batches of all groups into one common order"
            )


@dataclass(frozen=True, slots=True)
class _Rehearsal:
    """The step without its numbers: every stage's operations, and how far it has come."""

    step: StepPlan
    scores: dict[Stage, list[tuple[Direction, int]]]
    done: dict[Stage, int]
    finished: set[Turn]

    @classmethod
    def of(cls, plan: DeploymentPlan, step: StepPlan) -> "_Rehearsal":
        scores = {}
        for replica, work in enumerate(step.work):
            stages = plan.replicas[replica].config.pp
            for stage in range(stages):
                scores[replica, stage] = list(one_forward_one_backward(stage, stages, len(work)))
        return cls(step, scores, dict.fromkeys(scores, 0), set())

    def play(self, at: Stage) -> bool:
        """Play the stage's next operation, with all who share it, if every one of them has come to it."""
        if self.done[at] == len(self.scores[at]):
            return False
        turns = self._sharers(at, *self.scores[at][self.done[at]])
        if not all(self._ready(turn) for turn in turns):
            return False
        for turn in turns:
            self.done[turn[0]] += 1
            self.finished.add(turn)
        return True

    def _ready(self, turn: Turn) -> bool:
        (replica, stage), direction, number = turn
        score, done = self.scores[replica, stage], self.done[replica, stage]
        if done == len(score) or score[done] != (direction, number):
            return False
        neighbour = replica, stage + (-1 if direction == "forward" else 1)
        return neighbour not in self.scores or (neighbour, direction, number) in self.finished

    def _sharers(self, at: Stage, direction: Direction, number: int) -> list[Turn]:
        """The operation as each member of its group counts it."""
        group = self.step.work[at[0]][number].group
        if not group:
            return [(at, direction, number)]
        before = sum(microbatch.group == group for microbatch in self.step.work[at[0]][:number])
        turns = []
        for member in group:
            shared = [n for n, microbatch in enumerate(self.step.work[member]) if microbatch.group == group]
            turns.append(((member, at[1]), direction, shared[before]))
        return turns
