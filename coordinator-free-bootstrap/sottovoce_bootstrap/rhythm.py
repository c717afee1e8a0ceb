"""Rate of a device's exchanges: faster if it receives too few of the fleet's exchanges, slower if it receives too many.

After Tölgyesi and Jelasity, "Adaptive Peer Sampling with Newscast", Euro-Par 2009: a device that loses more messages
than others is in fewer views than others; it detects this by the exchanges received, and compensates by sending more.
The rate of exchanges received is compared with the fleet's average, one exchange in each of the fleet's periods, and
not with one in each of the device's own periods: otherwise a faster device would conclude that it receives too few and
would speed up further, until chance alone had brought whole fleets to the shortest period.
"""

CYCLES = 20
"""Number of exchanges begun from one decision to the next."""

SHORTEST, LONGEST = 0.25, 2.0
"""Of a fleet's period: that of a device which hardly anything reaches, and of one that is called all the time."""

_FEW, _MANY = 0.5, 2.0


class Rhythm:
    """Period of one device.

    Args:
        period: period of the fleet, in seconds.
        now: present time, in seconds.
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
        """Note that an exchange of another device has arrived."""
        self._received += 1

    def begin(self, now: float) -> None:
        """Note that an exchange of this device begins."""
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
