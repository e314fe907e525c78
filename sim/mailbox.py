"""Mailboxes: messages between neighbouring stages, which delay the receiver and never the sender."""

from simpy import Environment, Event


class Mailbox:
    """What one stage sends to its neighbour, one message a micro-batch, in the order of the micro-batches.

    Messages travel at the same time, each for its own seconds: links are priced, their contention is not modelled.
    """

    __slots__ = ("_environment", "_messages", "_news")

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._messages: list[Event] = []
        self._news: Event | None = None

    def send(self, seconds: float) -> None:
        """Post the next message; it arrives after these seconds, its value is the moment it was sent."""
        self._messages.append(self._environment.timeout(seconds, self._environment.now))
        if self._news is not None:
            self._news.succeed()
            self._news = None

    def sent(self, microbatch: int) -> Event | None:
        """The message of a micro-batch, an event of its arrival; None where it was not sent yet."""
        return self._messages[microbatch] if microbatch < len(self._messages) else None

    def news(self) -> Event:
        """An event of the next sending."""
        self._news = self._environment.event()
        return self._news
