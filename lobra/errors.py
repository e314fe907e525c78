"""The two ways a request can fail: it is wrong, or it asks for what cannot be."""


class BadInput(ValueError):
    """A value is wrong: the message is one line that names field, value and way out (exit code 2)."""


class Infeasible(ValueError):
    """The request is well-formed, yet nothing satisfies it: the message names what would (exit code 3)."""
