"""Adaptive message interval for a device that has nothing left to learn: the interval grows until there is news.

The interval adapts only for learners that report their belief, and only after they have finished their private steps.
The interval depends on that belief alone, which is computed from released values, so a device's sending rate reveals
nothing about its records.
"""

import numpy as np

from sottovoce.learning.learners import Effect, Event, Received, SetTimer, SettlingState, Timer

CALM_CYCLES = 10
"""Number of cycles without news after which the pause starts to double every cycle."""

CHANGE_THRESHOLD = 1e-3
"""Minimum model change since the last news, as a fraction of the largest parameter, that counts as news."""

_MAX_DOUBLINGS = 60


class AdaptiveInterval:
    """Adaptive message interval for one device; a restart counts as news and therefore resets the interval.

    Args:
        longest_pause: longest pause between two cycles, in seconds; a longer pause requested by the learner is kept.
    """

    def __init__(self, longest_pause: float) -> None:
        self._longest_pause = longest_pause
        self._last_news: SettlingState | None = None
        self._calm_cycles = 0
        self._period = 0.0
        self._timer = ""

    def reschedule(self, belief: SettlingState | None, event: Event, effects: list[Effect], now: float) -> list[Effect]:
        """Return the effects, with the timer for the next cycle adjusted to the current interval.

        Args:
            belief: the learner's belief after the event; None while it still has private steps to take.
            event: the event being handled.
            effects: effects requested by the learner.
            now: current time, in seconds.
        """
        is_news, is_slow = self._is_news(belief), self._calm_cycles > CALM_CYCLES
        if is_news:
            self._last_news, self._calm_cycles = belief, 0
        match event:
            case Timer():
                self._calm_cycles += not is_news
                return [self._postpone(effect, now) if isinstance(effect, SetTimer) else effect for effect in effects]
            case Received() if is_news and is_slow:
                return [*effects, SetTimer(self._timer, now + self._period)]
        return effects

    def _is_news(self, belief: SettlingState | None) -> bool:
        last_news = self._last_news
        if belief is None or last_news is None or belief.extra != last_news.extra:
            return True
        change, largest = np.abs(belief.model - last_news.model), np.abs(last_news.model)
        return bool(change.max(initial=0.0) > CHANGE_THRESHOLD * largest.max(initial=0.0))

    def _postpone(self, timer: SetTimer, now: float) -> SetTimer:
        self._timer, self._period = timer.name, timer.at - now
        extended_period = self._period * 2.0 ** min(max(0, self._calm_cycles - CALM_CYCLES), _MAX_DOUBLINGS)
        return SetTimer(timer.name, now + max(self._period, min(extended_period, self._longest_pause)))
