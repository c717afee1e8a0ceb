"""Adaptive exchange rate that rises when a device receives too few exchanges and falls when it receives too many.

After Tölgyesi and Jelasity, "Adaptive Peer Sampling with Newscast", Euro-Par 2009. A device that loses more messages
than other devices do is in fewer views than they are. It notices this because it receives fewer exchanges, and starts
more exchanges to compensate. It compares the number of exchanges that it receives per fleet period with the fleet's
average, which is one. It must not count them per period of its own: a device with a shorter period would conclude that
it receives too few exchanges and would shorten its period further, until chance alone had driven whole fleets to the
shortest period.
"""

CYCLES = 20
"""Number of exchanges that a device starts between two decisions."""

SHORTEST, LONGEST = 0.25, 2.0
"""Limits of a device's period as fractions of the fleet's period, for very few or very many received exchanges."""

_FEW, _MANY = 0.5, 2.0


class AdaptivePeriod:
    """The adaptive period of one device.

    Args:
        period: the fleet's period, in seconds.
        now: current time, in seconds.
    """

    def __init__(self, period: float, now: float) -> None:
        self._fleet_period = period
        self._factor = 1.0
        self._cycles = 0
        self._received = 0
        self._since = now

    @property
    def period(self) -> float:
        """Seconds between two exchanges that this device starts."""
        return self._fleet_period * self._factor

    def count_received(self) -> None:
        """Count an exchange that another device started."""
        self._received += 1

    def count_started(self, now: float) -> None:
        """Count an exchange that this device starts, and adapt the period after every 20 of them."""
        self._cycles += 1
        if self._cycles < CYCLES or now <= self._since:
            return
        received = self._received * self._fleet_period / (now - self._since)
        if received < _FEW:
            self._factor = max(SHORTEST, self._factor / 2)
        elif received > _MANY:
            self._factor = min(LONGEST, self._factor * 2)
        elif self._factor < 1 <= received:
            self._factor *= 2
        elif received <= 1 < self._factor:
            self._factor /= 2
        self._cycles, self._received, self._since = 0, 0, now
