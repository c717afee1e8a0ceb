"""Panel for Home Assistant: publishes public facts about the agent, and forecasts, only on the home's own broker."""

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sottovoce.config import AgentConfig
from sottovoce.days import date_after
from sottovoce.errors import DataError, NetworkError
from sottovoce.node.control import ask
from sottovoce.node.faults import Fault

from sottovoce_home.broker import Session, Will
from sottovoce_home.home_assistant import KEYS, OFFLINE, ONLINE, TASK_KEYS, Topics, discovery_message
from sottovoce_home.prediction import Prediction, Predictor, forecast_document
from sottovoce_home.street import street_document

if TYPE_CHECKING:
    from sottovoce_home.participation import Participation

_log = logging.getLogger("sottovoce.home.panel")
UNREACHABLE = "unreachable"
"""State of an agent that does not answer, or whose socket this user is not allowed to open."""

_ANSWER_TIMEOUT = 5.0
_MAX_STATE_LENGTH = 255  # longest state that Home Assistant accepts
_OFFLINE_TIMEOUT = 2.0


class Panel:
    """The agent, exposed as a Home Assistant device.

    Args:
        config: the complete configuration.
        identifier: public, permanent identifier of the device.
    """

    def __init__(self, config: AgentConfig, identifier: str) -> None:
        section = config.feed.home_assistant
        self._topics = Topics(section.discovery_prefix, identifier)
        self._name = section.name
        self._period = section.period
        self._state = config.agent.state
        self._readers = config.agent.readers_socket
        self._predictor = Predictor(config)
        self._config = config
        self._retained: dict[str, str] = {}
        self._shows_forecast, self._shows_street = section.forecast, section.street
        self._participation = _make_participation(config) if section.tasks else None
        self._keys = KEYS if self._participation is None else (*KEYS, *TASK_KEYS)
        self._announcement_due, self._switch_used = asyncio.Event(), asyncio.Event()
        self._traffic: tuple[int, int] | None = None
        self._last_exchange: str | None = None
        self._is_unreachable = False

    @property
    def filters(self) -> list[str]:
        """Return the topics on which Home Assistant reports its start and, if enabled, the owner's switch."""
        return [self._topics.birth] + ([] if self._participation is None else [self._topics.switch])

    @property
    def will(self) -> Will:
        """Return the message that the broker publishes when this device disconnects."""
        return Will(self._topics.availability, OFFLINE)

    async def handle_message(self, topic: str, payload: bytes, *, retained: bool) -> None:
        """Announce the device again after Home Assistant has started, or record a use of the switch."""
        if topic == self._topics.birth and payload == ONLINE.encode():
            self._announcement_due.set()
        if self._participation is not None and topic == self._topics.switch and not retained:
            await asyncio.to_thread(self._participation.handle_switch, payload)
            self._switch_used.set()

    async def publish_states(self, connection: Session, windows_stored: asyncio.Event) -> None:
        """Announce the device, and then publish its state in each period and whenever it may have changed.

        Args:
            connection: connection to the broker.
            windows_stored: event that is set when a window has been stored.

        Raises:
            NetworkError: if the connection has ended.
        """
        self._announcement_due.set()
        announced: int | None = None
        published: dict[str, str] = {}
        while True:
            if self._announcement_due.is_set():
                self._announcement_due.clear()
                announced = None if self._participation is None else self._participation.epoch
                config = json.dumps(self._describe(announced))
                await connection.publish(self._topics.discovery, config, retain=True, confirmed=True)
                await connection.publish(self._topics.availability, ONLINE, retain=True, confirmed=True)
                published = {}
            windows_stored.clear()
            self._switch_used.clear()
            state = json.dumps(await asyncio.to_thread(self.read_state))
            if self._participation is not None and self._participation.epoch != announced:
                self._announcement_due.set()
                continue
            await connection.publish(self._topics.state, state, retain=False, confirmed=False)
            for topic, text in self._retained.items():
                if published.get(topic) != text:  # an empty message makes the broker forget the last one
                    await connection.publish(topic, text, retain=True, confirmed=True)
                    published[topic] = text
            await _wait_for_first(self._announcement_due, self._switch_used, windows_stored, seconds=self._period)

    def _describe(self, epoch: int | None) -> dict[str, Any]:
        return discovery_message(
            self._topics,
            self._name,
            round(3 * self._period),
            epoch,
            shows_forecast=self._shows_forecast,
            shows_street=self._shows_street,
        )

    async def announce_offline(self, connection: Session) -> None:
        """Announce that the device is offline; if the connection no longer allows this, the broker does so instead."""
        try:
            async with asyncio.timeout(_OFFLINE_TIMEOUT):
                await connection.publish(self._topics.availability, OFFLINE, retain=True, confirmed=True)
        except (NetworkError, TimeoutError):
            _log.debug("left-silently")

    def read_state(self) -> dict[str, Any]:
        """Query the agent, read the windows, and return the JSON-serialisable state, with None for unknown values."""
        try:
            status = ask(self._state, "status", _ANSWER_TIMEOUT, waiting=True, readers=self._readers)
            model = {} if "fault" in status else ask(self._state, "model", _ANSWER_TIMEOUT, readers=self._readers)
        except NetworkError:
            status, model = None, {}
        try:
            prediction = self._predictor.predict(model)
        except DataError:  # nothing has been stored yet, or the listener has logged what is wrong with the store
            prediction = Prediction()
        forecast = forecast_document(prediction) if self._shows_forecast else None
        street = street_document(self._config, status, model) if self._shows_street else None
        for topic, document in ((self._topics.forecast, forecast), (self._topics.street, street)):
            self._retained[topic] = "" if document is None else json.dumps(document)
        if status is None:
            if not self._is_unreachable:
                _log.warning("waiting-for-agent reason=the agent does not answer next_attempt_s=%.0f", self._period)
            self._is_unreachable = True
            return {**dict.fromkeys(self._keys), "state": UNREACHABLE, "prediction": prediction.energy}
        self._is_unreachable = False
        if "fault" in status:
            fault = Fault.from_status(status["fault"])
            problem = "ON" if fault.needs_a_person else "OFF"
            trouble = fault.summary[:_MAX_STATE_LENGTH]
            return {
                **dict.fromkeys(self._keys),
                "state": status["state"],
                "needs_a_person": problem,
                "trouble": trouble,
                "prediction": prediction.energy,
            }
        traffic = status["traffic"]["messages"], status["traffic"]["received"]
        if self._traffic is not None and traffic != self._traffic:
            self._last_exchange = datetime.now(UTC).isoformat(timespec="seconds")
        self._traffic = traffic
        privacy = status["privacy"]
        total, spent = privacy["epsilon"], privacy["spent_epsilon"]
        return {
            "state": status["state"],
            "resting_until": status.get("resting_until"),
            "needs_a_person": "OFF",
            "trouble": status["transport"]["trouble"][:_MAX_STATE_LENGTH] or "none",
            "peers": len(status["peers"]),
            "epsilon_left": None if total is None or spent is None else round(max(total - spent, 0.0), 4),
            "budget_lasts_until": date_after(status["ledger"]["lasts_days"]),
            "last_exchange": self._last_exchange,
            "certificate_expires": status["certificate_expires"],
            "prediction": prediction.energy,
            **({} if self._participation is None else self._participation.state(status)),
        }


def _make_participation(config: AgentConfig) -> "Participation":
    from sottovoce_home.participation import Participation  # imported late to save memory if it is not used

    return Participation(config)


async def _wait_for_first(*events: asyncio.Event, seconds: float) -> None:
    """Wait until the first of several events is set, for at most this many seconds."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
