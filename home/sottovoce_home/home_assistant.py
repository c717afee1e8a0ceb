"""Description of this device for Home Assistant: the MQTT device discovery message and the topic names.

See "MQTT device discovery" in the documentation of Home Assistant's MQTT integration, version 2024.11 or later.
"""

from dataclasses import dataclass
from typing import Any

import sottovoce

ONLINE = "online"
OFFLINE = "offline"
_FORECAST_EXPIRES = 7200  # seconds; a new forecast follows every half hour
_DIAGNOSTIC = {"entity_category": "diagnostic"}
_COMPONENTS: dict[str, dict[str, Any]] = {
    "state": {"name": "State", "icon": "mdi:state-machine", **_DIAGNOSTIC},
    "needs_a_person": {"platform": "binary_sensor", "name": "Needs a person", "device_class": "problem", **_DIAGNOSTIC},
    "resting_until": {"name": "Resting until", "device_class": "timestamp", **_DIAGNOSTIC},
    "trouble": {"name": "Trouble", "icon": "mdi:alert-circle-outline", **_DIAGNOSTIC},
    "peers": {"name": "Peers", "icon": "mdi:lan", "state_class": "measurement", **_DIAGNOSTIC},
    "epsilon_left": {
        "name": "Privacy budget left",
        "icon": "mdi:shield-lock",
        "unit_of_measurement": "ε",
        "suggested_display_precision": 2,
        "state_class": "measurement",
        **_DIAGNOSTIC,
    },
    "budget_lasts_until": {"name": "Privacy budget lasts until", "device_class": "date", **_DIAGNOSTIC},
    "last_exchange": {"name": "Last exchange", "device_class": "timestamp", **_DIAGNOSTIC},
    "certificate_expires": {"name": "Certificate expires", "device_class": "timestamp", **_DIAGNOSTIC},
    "prediction": {
        "name": "Energy expected next",
        "device_class": "energy",
        "unit_of_measurement": "Wh",
        "suggested_display_precision": 0,
    },
}
KEYS = tuple(_COMPONENTS)
"""Keys of a state message; unknown values are None."""

TASK_KEYS = ("task", "takes_part")
"""Keys that a state message also has if the fleet's tasks are shown."""


def take_part_payload(epoch: int) -> str:
    """Return the payload that turns the switch on; it names the epoch, because a newer task may have arrived."""
    return f"take part in {epoch}"


def leave_payload(epoch: int) -> str:
    """Return the payload for turning the switch off."""
    return f"leave {epoch}"


_TASK = {"task": {"name": "Fleet task", "icon": "mdi:clipboard-text-outline", **_DIAGNOSTIC}}


@dataclass(frozen=True, slots=True)
class Topics:
    """MQTT topics of one device.

    Attributes:
        prefix: discovery prefix, as configured in Home Assistant.
        identifier: identifier of the device, which consists of letters and digits.
    """

    prefix: str
    identifier: str

    @property
    def birth(self) -> str:
        """Topic on which Home Assistant announces when it starts and stops."""
        return f"{self.prefix}/status"

    @property
    def discovery(self) -> str:
        """Topic of the device's description; an empty message on it makes Home Assistant remove the device."""
        return f"{self.prefix}/device/{self.device}/config"

    @property
    def availability(self) -> str:
        """Topic on which the device reports `online` or `offline`."""
        return f"sottovoce/home/{self.identifier}/available"

    @property
    def state(self) -> str:
        """Topic of the state messages, which are JSON."""
        return f"sottovoce/home/{self.identifier}/state"

    @property
    def forecast(self) -> str:
        """Topic of the forecast for the next 48 half hours, which is JSON and retained."""
        return f"sottovoce/home/{self.identifier}/forecast"

    @property
    def street(self) -> str:
        """Topic of the newest result of the fleet's secure sums, which is JSON and retained."""
        return f"sottovoce/home/{self.identifier}/street"

    @property
    def switch(self) -> str:
        """Topic of the owner's switch."""
        return f"sottovoce/home/{self.identifier}/take-part"

    @property
    def device(self) -> str:
        """Id of the device in Home Assistant."""
        return f"sottovoce_{self.identifier}"


def discovery_message(
    topics: Topics,
    name: str,
    expires: int,
    epoch: int | None = None,
    *,
    shows_forecast: bool = False,
    shows_street: bool = False,
) -> dict[str, Any]:
    """Return the discovery message that describes the device.

    Args:
        topics: topics of the device.
        name: display name of the device.
        expires: seconds after which a state message expires.
        epoch: epoch of the fleet's newest task, or 0 before the first task; None if tasks are not shown.
        shows_forecast: whether the forecast for the next 48 half hours is published.
        shows_street: whether the newest result of the fleet's secure sums is published.

    Returns:
        The message, JSON-ready.
    """
    return {
        "device": {
            "identifiers": [topics.device],
            "name": name,
            "manufacturer": "Sottovoce",
            "model": "Agent",
            "sw_version": sottovoce.__version__,
        },
        "origin": {"name": "sottovoce", "sw_version": sottovoce.__version__},
        "components": {
            key: {
                "platform": "sensor",
                "unique_id": f"{topics.device}_{key}",
                "value_template": f"{{{{ value_json.{key} }}}}",
                "expire_after": expires,
                **component,
            }
            for key, component in {**_COMPONENTS, **({} if epoch is None else _TASK)}.items()
        }
        | ({"takes_part": _switch(topics, epoch)} if epoch else {})
        | ({"forecast": _forecast(topics)} if shows_forecast else {})
        | ({"street": _street(topics)} if shows_street else {}),
        "state_topic": topics.state,
        "availability_topic": topics.availability,
        "qos": 1,
    }


def _forecast(topics: Topics) -> dict[str, Any]:
    return {
        "platform": "sensor",
        "name": "Energy expected in 24 hours",
        "unique_id": f"{topics.device}_forecast",
        "device_class": "energy",
        "unit_of_measurement": "kWh",
        "suggested_display_precision": 1,
        "state_topic": topics.forecast,
        "value_template": "{{ value_json.kwh }}",
        "json_attributes_topic": topics.forecast,
        "expire_after": _FORECAST_EXPIRES,
    }


def _street(topics: Topics) -> dict[str, Any]:
    return {
        "platform": "sensor",
        "name": "Your street's mean day",
        "icon": "mdi:home-group",
        "unique_id": f"{topics.device}_street",
        "device_class": "energy",
        "unit_of_measurement": "kWh",
        "suggested_display_precision": 1,
        "state_topic": topics.street,
        "value_template": "{{ value_json.kwh }}",
        "json_attributes_topic": topics.street,
    }


def _switch(topics: Topics, epoch: int) -> dict[str, Any]:
    return {
        "platform": "switch",
        "name": "Takes part in the fleet task",
        "icon": "mdi:account-check",
        "unique_id": f"{topics.device}_takes_part",
        "value_template": "{{ value_json.takes_part }}",
        "state_on": "ON",
        "state_off": "OFF",
        "command_topic": topics.switch,
        "payload_on": take_part_payload(epoch),
        "payload_off": leave_payload(epoch),
        "entity_category": "config",
    }
