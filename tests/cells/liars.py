"""Members that lie, and what they make up."""

import random
from dataclasses import replace
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray
from sottovoce.algorithms.cell.public.messages import Known, Result
from sottovoce.secure_sum.opening import Opening
from sottovoce.secure_sum.statements import Knows, Offer, Stand, roster_of, round_digest

from tests.cells.fleet import NOWHERE, signed
from tests.cells.world import World


class Forger:
    """One member that sends results and answers of its own making, and signs with its own key.

    Args:
        world: the fleet.
        name: the member's.
        seed: of what it makes up.
    """

    def __init__(self, world: World, name: str, seed: int) -> None:
        self._world, self._name, self._random = world, name, random.Random(seed)

    def forged(self, kind: str) -> Result | Known:
        """A result or an answer that no honest device could send."""
        numbers = np.array([self._random.randint(-(2**40), 2**40) for _ in range(self._world.size)])
        if kind == "known":
            return self.known(numbers)
        return self._result()

    def known(self, numerator: NDArray[np.int64]) -> Known:
        """An answer signed by this member alone."""
        raw = numerator.astype("<i8").tobytes()
        members = self._random.randint(1, len(self._world.names))
        return Known(signed(self._name, Knows(1, members, sha256(raw).digest())), raw)

    def _result(self) -> Result:
        """An opening with offers and signatures that are partly real: the forger's own, and copies of its stand."""
        names = self._world.names
        bodies = {name: Offer(0, NOWHERE, *(self._random.randbytes(32) for _ in range(3))) for name in names}
        offers = [signed(name if self._random.random() < 0.9 else self._name, bodies[name]) for name in names]
        statements = tuple(replace(one, owner=name) for one, name in zip(offers, names, strict=True))
        roster, members = roster_of(statements), tuple(range(len(names)))
        digests = tuple(self._random.randbytes(32) for _ in members)
        stand = Stand(round_digest(roster, members, digests), members)
        mine = signed(self._name, stand)
        owners = [self._name] + [name for name in names if name != self._name]
        stands = tuple(replace(mine, owner=owner) for owner in owners[: self._random.randint(1, len(owners))])
        seeds = tuple(self._random.randbytes(32) for _ in members)
        return Result(Opening(statements, members, digests, stands, seeds, ()))
