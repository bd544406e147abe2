"""Objects that say what they are, so that any process can tell a whole one from a torn one."""

import random
import struct
from typing import NamedTuple

#: The largest object: more than one part.
LARGEST = 6 << 20
_HEADER = struct.Struct("<QQ")
_FILLER = random.Random(33).randbytes(LARGEST + 4096)


class Recipe(NamedTuple):
    """What an object consists of. None is empty: an empty object would be a torn one."""

    seed: int
    size: int

    def data(self) -> bytes:
        at = self.seed % 4096
        return _HEADER.pack(*self) + _FILLER[at : at + self.size - _HEADER.size]


def is_whole(data: bytes) -> bool:
    """Whether the bytes are all of one object and nothing else."""
    if len(data) < _HEADER.size:
        return False
    recipe = Recipe(*_HEADER.unpack_from(data))
    return recipe.size == len(data) and recipe.data() == data


def any_recipe(dice: random.Random) -> Recipe:
    sizes = [16, 100, 4096, 70_000, 300_000, LARGEST]
    [size] = dice.choices(sizes, [10, 20, 30, 25, 13, 2])
    return Recipe(dice.getrandbits(64), size)
