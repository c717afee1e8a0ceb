"""How often a device begins an exchange: faster where too few of the fleet's exchanges reach it, slower where too many.

After Tölgyesi and Jelasity, "Adaptive Peer Sampling with Newscast", Euro-Par 2009: a device that loses more messages
than others is in fewer views than others; it notices by what reaches it, and makes up for it by what it sends.
Exchanges received are compared with what a device of this fleet receives on average, which is one in each of the
fleet's periods, and not with its own: anyone who hurried would find by that that it receives too little, and hurry on,
until chance alone had brought whole fleets to the shortest period.
"""

CYCLES = 20
"""Exchanges begun from one decision to the next."""

SHORTEST, LONGEST = 0.25, 2.0
"""Of a fleet's period: that of a device which hardly anything reaches, and of one that is called all the time."""

_FEW, _MANY = 0.5, 2.0


class Rhythm:
    """One device's own period.

    Args:
        period: seconds; the fleet's.
        now: seconds.
    """

    def __init__(self, period: float, now: float) -> None:
        self._fleets = period
        self._factor = 1.0
        self._cycles = 0
        self._received = 0
        self._since = now

    @property
    def period(self) -> float:
        """Seconds between two exchanges that this device begins."""
        return self._fleets * self._factor

    def receive(self) -> None:
        """An exchange of another device has come."""
        self._received += 1

    def begin(self, now: float) -> None:
        """An exchange of this device begins."""
        self._cycles += 1
        if self._cycles < CYCLES or now <= self._since:
            return
        received = self._received * self._fleets / (now - self._since)
        if received < _FEW:
            self._factor = max(SHORTEST, self._factor / 2)
        elif received > _MANY:
            self._factor = min(LONGEST, self._factor * 2)
        elif self._factor < 1 <= received:
            self._factor *= 2
        elif received <= 1 < self._factor:
            self._factor /= 2
        self._cycles, self._received, self._since = 0, 0, now
