"""The console script `lobra VERB [key=value ...]`: finds the verb, gives the rest to Hydra, ends with a truthful code.

Exit codes: 0 done, 2 bad input, 3 infeasible, 4 partial, 5 interrupted or preempted (start again: finished points are
skipped, a real run goes on from its newest checkpoint), 6 internal or a rank's failure. Heavy modules are imported
where a verb needs them, so that `lobra` and its refusals stay quick.
"""

import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import lobra
from lobra.errors import BadInput

VERBS = {
    "plan": "deploy one policy and say how good the plan is",
    "run": "play one policy on one backend",
    "compare": "many policies side by side on the same batches",
    "prepare": "make a token store of text",
    "profile": "time micro-batches on real ranks",
    "fit": "coefficients of the cost model from a profile",
    "validate": "compare the simulator with a real run",
    "gain": "for your own lengths: the most that heterogeneity, packing, sharing and joint training can give",
    "study": "play a study: the paper's figures again, and the questions beside them",
    "whatif": "capacity: what a team of tenants takes, how many GPUs it needs, and what changes if",
    "figure": "draw a figure of finished results",
    "report": "finished runs of whatif and compare as one HTML file",
    "export": "write traces in other formats",
    "doctor": "say what is installed",
}
PACKAGES = ("workloads", "costmodel", "policies", "sim", "executor", "experiments", "conf")


def main() -> int:
    """Run the verb that the command line names; the exit code."""
    try:
        check_shadowing()
        verb, arguments = split(sys.argv[1:])
        if verb is None:
            sys.stdout.write(usage())
            return 0
        from experiments.front import run_verb  # noqa: PLC0415 -- imports Hydra; a refusal above needs none of it

        return run_verb(verb, arguments, desk)
    except BadInput as error:
        sys.stderr.write(f"lobra: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("lobra: interrupted\n")
        return 5
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read us has gone
        return 0
    except Exception:  # noqa: BLE001 -- a fault of ours: show all of it
        traceback.print_exc()
        return 6


def desk() -> ModuleType:
    """The workers of the verbs: planners, simulator, plots. Loaded once the configuration is known to be sound."""
    from experiments import desk as loaded  # noqa: PLC0415 -- a second of start-up that a refusal need not wait for

    return loaded


def split(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The verb and what follows it; None where only help is asked for."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return None, []
    verb = arguments[0]
    if verb not in VERBS:
        raise BadInput(f"verb: there is no verb {verb!r}; choose from {', '.join(VERBS)}")
    return verb, list(arguments[1:])


def usage() -> str:
    """What can be asked for."""
    lines = [f"  {verb:9}{what}" for verb, what in VERBS.items()]
    return "\n".join(["usage: lobra VERB [key=value ...]", *lines, "`lobra VERB --help` lists its keys.", ""])


def check_shadowing() -> None:
    """Refuse to run where another distribution's package hides one of ours: their names are plain words."""
    home = Path(lobra.__file__).parent.parent
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).parent.parent if spec is not None and spec.origin else None
        if found != home:
            raise BadInput(f"package '{name}' comes from {found}, not from {home}; remove what hides it")


if __name__ == "__main__":
    sys.exit(main())
