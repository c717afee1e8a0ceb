"""One liar of each kind among 20 devices, one of which may be dishonest: the others get the sum, and name it."""

import pytest
from sottovoce.algorithms.cell.public.machine import _ranked

from tests.cells.liars import LIARS, SILENT
from tests.cells.world import World

OF_LEADERS = ("ProposesManyRounds", "ReportsAnotherSum", "PassesOnOtherVectors", "NamesTwoSets")
OF_MEMBERS = ("DealsWorthlessShares", "DealsTwoWorthlessShares", "RevealsFalseShares")
NAMES = [f"member-{number:02d}" for number in range(20)]
LEADS, DEPUTY, LAST = (_ranked(NAMES, 0)[at] for at in (0, 1, -1))


@pytest.mark.parametrize("place", ["leads", "deputy", "last"])
@pytest.mark.parametrize("kind", LIARS)
def test_one_liar(kind: str, place: str) -> None:
    liar = {"leads": LEADS, "deputy": DEPUTY, "last": LAST}[place]
    world = World(count=20, liars={liar: LIARS[kind]}).run(90)
    assert len(world.knowing()) == 19
    assert world.charges() <= 2
    assert not world.slandered()
    if kind not in SILENT and (place == "leads") >= (kind in OF_LEADERS) and (place != "leads") >= (kind in OF_MEMBERS):
        assert len(world.naming(liar)) > 9
