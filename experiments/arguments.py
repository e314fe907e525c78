"""The command line before Hydra sees it: which options there are, what may be overridden, what stands first.

Hydra can read configuration from any folder, call any `_target_`, resolve `${oc.env:...}` and unpickle a former job.
None of that is wanted from a command line, so all of it is refused here, by form and before anything is composed.
"""

from collections.abc import Sequence

from lobra.errors import BadInput

FLAGS = ("-m", "--multirun", "-h", "--help", "--hydra-help", "--resolve", "--version")
WITH_VALUE = {
    "-c": ("job", "hydra", "all"),
    "--cfg": ("job", "hydra", "all"),
    "-i": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
    "--info": ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath"),
    "-p": (),
    "--package": (),
}
HYDRA_KEYS = ("hydra/launcher", "hydra/sweeper", "hydra.launcher.", "hydra.sweeper.")
MAIN_KEYS = {
    "plan": "policy",
    "run": "policy",
    "prepare": "text",
    "fit": "samples",
    "validate": "run",
    "gain": "lengths",
    "study": "experiment",
    "whatif": "question",
    "figure": "name",
    "export": "run",
    "report": "runs",
}
LISTS = ("report",)  # whose main key holds as many bare words as there are
OWN_NAMES: dict[str, tuple[str, ...]] = {"whatif": ("budgets.",)}  # keys below these are names of the user's own


def prepare(verb: str, arguments: Sequence[str]) -> list[str]:
    """The arguments for Hydra; a bare word is the value of the verb's main key. BadInput for what is not allowed."""
    options: list[str] = []  # they go first: Hydra's parser reads no key=value after an option that follows others
    overrides: list[str] = []
    named: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        if argument in FLAGS:
            options.append(argument)
        elif option in WITH_VALUE:
            value = value if equals else next(rest, "")
            options += [option, _choice(option, value)]
        elif argument.startswith("-"):
            raise BadInput(f"option {argument}: there is no such option; use {', '.join(FLAGS)}, --cfg job or --info")
        elif not equals and not argument.startswith(("~", "+")):
            if verb not in MAIN_KEYS or (named and verb not in LISTS):
                raise BadInput(f"argument {argument!r}: give key=value; `lobra {verb} --help` lists the keys")
            named.append(argument)
            if verb not in LISTS:
                overrides.append(_checked(f"{MAIN_KEYS[verb]}={argument}"))
        else:
            own = argument.startswith(OWN_NAMES.get(verb, ()))
            overrides.append(f"++{_checked(argument)}" if own else _checked(argument))
    if named and verb in LISTS:
        overrides.append(_checked(f"{MAIN_KEYS[verb]}=[{','.join(map(_quoted, named))}]"))
    return options + overrides


def _quoted(text: str) -> str:
    """A word of a list as Hydra's grammar reads it back."""
    if text.endswith("\\"):
        raise BadInput(f"argument {text!r}: a name cannot end in a backslash here")
    return "'" + text.replace("'", "\\'") + "'"


def is_sweep(arguments: Sequence[str]) -> bool:
    """Whether Hydra is asked for many jobs."""
    return any(argument in ("-m", "--multirun") for argument in arguments)


def _choice(option: str, value: str) -> str:
    if WITH_VALUE[option] and value not in WITH_VALUE[option]:
        raise BadInput(f"option {option} is {value!r}; choose {', '.join(WITH_VALUE[option])}")
    return value


def _checked(override: str) -> str:
    key = override.partition("=")[0]
    if "${" in override:
        raise BadInput(f"{key}: interpolations (${{...}}) are not read from the command line; write the value itself")
    if "_target_" in override:
        raise BadInput(f"{key}: _target_ is not accepted; things are chosen by name, such as policy=lobra")
    if key.startswith(("+", "~")):
        raise BadInput(f"{override}: keys cannot be added or removed; write {key.lstrip('+~')}=VALUE")
    if key.startswith("hydra") and not key.startswith(HYDRA_KEYS):
        raise BadInput(
            f"{key}: of Hydra's own settings only hydra/launcher, hydra/sweeper and their keys may be changed"
        )
    return override
