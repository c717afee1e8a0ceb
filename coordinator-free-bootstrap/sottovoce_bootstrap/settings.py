"""Settings for a fleet's peer sampling, and values derived from them."""

from dataclasses import dataclass

from sottovoce.errors import ConfigError

_VIEW_SIZES = range(20, 101)
_WARM_SIZES = range(1, 13)
_HORIZON_PERIODS = 8
_BACKOFF_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The peer sampling settings.

    The period must be the same on all devices of a fleet; each device can choose the other settings for itself.

    Attributes:
        period: seconds between the exchanges that a device initiates.
        view_size: maximum number of entries in a view, c; 20 to 100. Overlays with views smaller than 20 fall apart.
        warm_size: number of peers whose channels are kept open; 1 to 12.

    Raises:
        ConfigError: if a value is out of range.
    """

    period: float = 60.0
    view_size: int = 30
    warm_size: int = 6

    def __post_init__(self) -> None:
        """Check that every value is in its range."""
        if not 0 < self.period <= 86_400:
            raise ConfigError("membership.period: must be positive and at most 86400 seconds")
        if self.view_size not in _VIEW_SIZES:
            raise ConfigError(
                "membership.view_size: must be from 20 to 100; a fleet with smaller views can become disconnected"
            )
        if self.warm_size not in _WARM_SIZES:
            raise ConfigError("membership.warm_size: must be from 1 to 12 channels")

    @property
    def horizon(self) -> float:
        """Maximum age in seconds of entries that a device accepts or forwards: eight periods.

        This limits how long relays can keep a record in circulation, so a dead device has left every view after ten
        periods.
        """
        return _HORIZON_PERIODS * self.period

    @property
    def introductions(self) -> int:
        """Number of devices new to the view that one introducer may add in one period: c/4, rounded down."""
        return self.view_size // 4

    @property
    def backoff(self) -> float:
        """Length of the first pause after a failed contact attempt, in seconds."""
        return min(_BACKOFF_SECONDS, self.period)
