"""What cannot pass on a server, with the reason: the only cells that may be something else than `pass`, and have to be."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """What the cell says, in part, and why it cannot say `pass`."""

    says: str
    reason: str


REFUSALS: dict[tuple[str, str], Refusal] = {}
