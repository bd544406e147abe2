"""The faults: what each is, in which direction, and how its parameters are drawn for one run."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from random import Random

from harness import KIB, MIB

COMMIT = 2.0

# A read goes on for as long as each round of attempts brings anything. Where every answer ends before so many bytes, and
# never another way, that takes hours: such a fault is over after a while.
TRICKLE = 256 * KIB


@dataclass(frozen=True)
class Fault:
    """What is done to one run, and when."""

    # "toxic", "cut" (the proxy is down), "kill" (the server is), "replace" or "remove" (another client does so with
    # the object), or "knobs" (of the embedded server).
    what: str
    # How much of the source the program has read when it strikes; 0 is before the program starts, COMMIT when the
    # server has all parts and only the completion is left.
    at: float
    # Seconds until it is over; None: it lasts until the run has ended.
    lasts: float | None
    toxic: str = ""
    stream: str = "upstream"
    toxicity: float = 1.0
    attributes: dict[str, int] = field(default_factory=dict)
    # Bytes a second that every connection is held to all along, so that there is a middle to strike in.
    pace: int | None = None
    # Milliseconds by which every answer is late all along, so that there are answers under way to be lost.
    lag: int | None = None
    # The embedded server's faults.
    rules: tuple[dict, ...] = ()

    @property
    def hides_aborts(self) -> bool:
        """Whether an abort can go unanswered for as long as this lasts, however often it is tried."""
        if self.what != "toxic":
            return True
        if self.toxicity <= 0.5:
            return False
        return self.toxic in ("reset_peer", "timeout") or self.attributes.get("bytes", 4 * KIB) < 4 * KIB

    @property
    def blocks_aborts(self) -> bool:
        """Whether it does not even arrive: downstream only the answer is lost."""
        return self.hides_aborts and (self.what != "toxic" or self.stream != "downstream")

    def __str__(self):
        return ", ".join(f"{name}={value}" for name, value in asdict(self).items() if value not in ("", {}, None, ()))


# Random numbers, the direction, and how many bytes of objects go in that direction: none where only headers do.
Draw = Callable[[Random, str, int], Fault]


@dataclass(frozen=True)
class Case:
    name: str
    direction: str
    draw: Draw
    # A network that is only slow is no reason to fail.
    must_succeed: bool = False
    # It is about bytes that come out of a store.
    reads_only: bool = False
    # Only the embedded server can be told to do so.
    embedded_only: bool = False
    # The server is killed.
    kills: bool = False
    # Bytes of an answer are not the object's.
    corrupts: bool = False

    @property
    def id(self):
        return f"{self.name}-{self.direction}" if self.direction in ("up", "down") else self.name

    def fault(self, random: Random, size: int, is_read: bool) -> Fault:
        stream = {"up": "upstream", "down": "downstream"}.get(self.direction, "both")
        fault = self.draw(random, stream, size if is_read != (stream == "upstream") else 0)
        # Behind the last byte there is nothing to strike in a read.
        return replace(fault, at=random.random()) if is_read and fault.at >= 1 else fault


def moment(random: Random) -> float:
    """Before the start, anywhere in the middle, when everything was read, or at the commit."""
    return random.choice([0.0, 0.0, random.random(), random.random(), 1.0, COMMIT])


def middle(random: Random) -> float:
    return random.choice([random.random(), random.random(), random.random(), 1.0, COMMIT, COMMIT])


def share(random: Random) -> float:
    """Of the connections."""
    return random.choice([0.1, 0.3, 0.5, 0.7, 1.0])


def slowly(random: Random, always=False) -> dict[str, int]:
    """What makes time for a fault to strike in."""
    base = {}
    if always or random.random() < 0.5:
        base["pace"] = random.choice([2, 4, 8, 16]) * 1_000_000
    if random.random() < 0.5:
        base["lag"] = random.choice([20, 50, 100, 200])
    return base


def spread(random: Random, least: int, most: int) -> int:
    """Small values as often as large ones."""
    return int(math.exp(random.uniform(math.log(least), math.log(most))))


def latency(random, stream, size):
    delay = random.randint(10, 300)
    attributes = {"latency": delay, "jitter": random.randint(0, delay // 2)}
    return Fault("toxic", moment(random), None, "latency", stream, 1.0, attributes)


def bandwidth(random, stream, size):
    """Such that all bytes one after another take a second or two; answers, a few bytes at a time."""
    rate = size / KIB / random.uniform(0.3, 2) if size else random.uniform(1, 20)
    return Fault("toxic", moment(random), None, "bandwidth", stream, 1.0, {"rate": max(5, int(rate))})


def slicer(random, stream, size):
    """A thousand slices or two, so that they take a second or two."""
    slice = max(256, size // random.randint(500, 2000)) if size else random.randint(2, 64)
    attributes = {"average_size": slice, "size_variation": slice // 2, "delay": random.randint(20, 300)}
    return Fault("toxic", moment(random), None, "slicer", stream, 1.0, attributes)


def reset_peer(random, stream, size):
    attributes = {"timeout": random.choice([0, 0, random.randint(1, 500)])}
    lasts = random.choice([None, random.uniform(0.2, 3)])
    return Fault("toxic", moment(random), lasts, "reset_peer", stream, share(random), attributes, **slowly(random))


def limit_data(random, stream, size):
    most = 2 * size + (10 * KIB if stream == "upstream" else 3000)
    lasts = random.choice([None, random.uniform(0.2, 3)])
    attributes = {"bytes": spread(random, 1, most)}
    fault = Fault("toxic", moment(random), lasts, "limit_data", stream, share(random), attributes, **slowly(random))
    trickles = size and stream == "downstream" and fault.toxicity == 1 and attributes["bytes"] < TRICKLE
    return replace(fault, lasts=3.0) if trickles and lasts is None else fault


def timeout(random, stream, size):
    """Bytes are lost for a while, then the connection is closed."""
    attributes = {"timeout": random.randint(20, 800)}
    lasts = random.choice([None, random.uniform(0.2, 3)])
    return Fault("toxic", moment(random), lasts, "timeout", stream, share(random), attributes, **slowly(random))


def black_hole(random, stream, size):
    """Bytes are lost and nothing is closed, until all connections are."""
    lasts = random.uniform(0.5, 4)
    return Fault("toxic", moment(random), lasts, "timeout", stream, share(random), {"timeout": 0}, **slowly(random))


def cut(random, stream, size):
    return Fault("cut", middle(random), random.uniform(0, 1.5), stream=stream, **slowly(random, always=True))


def down(random, stream, size):
    return Fault("cut", middle(random), 10.0, stream=stream, **slowly(random, always=True))


def kill(random, stream, size):
    return Fault("kill", middle(random), 0.0, stream=stream, **slowly(random))


def kill_late(random, stream, size):
    return Fault("kill", middle(random), random.uniform(0.5, 5), stream=stream, **slowly(random))


def early(random: Random) -> dict:
    """While there is still something to be asked for, though requests run ahead of what is given."""
    return {
        "at": random.uniform(0, 0.5),
        "lasts": None,
        "pace": random.choice([500_000, 1_000_000, 2_000_000, 4_000_000]),
    }


def replaced(random, stream, size):
    return Fault("replace", stream=stream, **early(random))


def removed(random, stream, size):
    return Fault("remove", stream=stream, **early(random))


def knob(action: Callable[[Random, int], dict | str]) -> Draw:
    """Of some or all of the requests for bytes, from some moment on."""

    def draw(random, stream, size):
        rule = {"operation": "GetObject", "action": action(random, size), "probability": share(random)}
        if random.random() < 0.5:
            rule["times"] = random.randint(1, 6)
        lasts = random.choice([None, random.uniform(0.2, 3)])
        if trickles(rule):
            lasts = lasts or 3.0
        at = random.choice([0.0, 0.0, random.uniform(0, 0.5)])
        return Fault("knobs", at, lasts, stream=stream, rules=(rule,), **slowly(random))

    return draw


def corrupt(random, stream, size):
    """And sometimes nothing comes any more behind that, so that a download ends with what is corrupt in its hands."""
    at = within(random, size)
    rules = [{"operation": "GetObject", "action": {"corrupt_response": {"at": at}}, "times": random.randint(1, 3)}]
    if random.random() < 0.5:
        reset = {"reset_response": {"after_bytes": 0}}
        rules.append({"operation": "GetObject", "action": reset, "skip": random.randint(1, 4)})
    return Fault("knobs", 0.0, None, stream=stream, rules=tuple(rules), **slowly(random))


def trickles(rule: dict) -> bool:
    """Whether every answer ends after a few bytes."""
    action = rule["action"]
    if rule["probability"] < 1 or "times" in rule or isinstance(action, str):
        return False
    return any(what.get("after_bytes", TRICKLE) < TRICKLE for what in action.values())


def within(random: Random, size: int) -> int:
    """A place in the body of one request, which is seldom of more than 8 MiB, and often of less."""
    most = max(2, min(size, 8 * MIB))
    return random.choice([0, spread(random, 1, most), spread(random, 1, most), random.randrange(most)])


def shift(random: Random) -> int:
    return random.choice([1, -1, 8 * MIB, -8 * MIB, random.randint(-MIB, MIB)])


def refusal(random: Random, size: int) -> dict:
    status, code = random.choice([(503, "SlowDown"), (503, "ServiceUnavailable"), (500, "InternalError")])
    return {"error": {"status": status, "code": code}}


KNOBS: dict[str, Callable[[Random, int], dict | str]] = {
    "body_reset": lambda random, size: {"reset_response": {"after_bytes": within(random, size)}},
    "body_ends": lambda random, size: {"end_response": {"after_bytes": within(random, size)}},
    "body_stalls": lambda random, size: {
        "stall_response": {"after_bytes": within(random, size), "ms": spread(random, 100, 15_000)}
    },
    "range_ignored": lambda random, size: "ignore_range",
    "range_other": lambda random, size: {"other_range": {"shift": shift(random)}},
    "range_misstated": lambda random, size: {"misstate_range": {"shift": shift(random)}},
    "range_shortened": lambda random, size: {"shorten_range": {"bytes": spread(random, 1, 8 * MIB)}},
    "refused": refusal,
}


def both_ways(name: str, draw: Draw, must_succeed=False) -> list[Case]:
    return [Case(name, direction, draw, must_succeed) for direction in ("up", "down")]


CASES: dict[str, Case] = {
    case.id: case
    for case in [
        *both_ways("latency", latency, must_succeed=True),
        *both_ways("bandwidth", bandwidth, must_succeed=True),
        *both_ways("slicer", slicer, must_succeed=True),
        *both_ways("reset_peer", reset_peer),
        *both_ways("limit_data", limit_data),
        *both_ways("timeout", timeout),
        *both_ways("black_hole", black_hole),
        Case("proxy_cut", "both", cut),
        Case("proxy_down_10s", "both", down),
        Case("kill_restart", "both", kill, kills=True),
        Case("kill_restart_late", "both", kill_late, kills=True),
        Case("replaced", "store", replaced, reads_only=True),
        Case("removed", "store", removed, reads_only=True),
        *(Case(name, "store", knob(action), reads_only=True, embedded_only=True) for name, action in KNOBS.items()),
        Case("body_corrupt", "store", corrupt, reads_only=True, embedded_only=True, corrupts=True),
    ]
}
