"""The device's description, in Home Assistant's documented form."""

import json
import re

from sottovoce_home.home_assistant import KEYS, TASK_KEYS, Topics, discovery_message

TOPICS = Topics("homeassistant", "0123456789ab")


def test_one_message_describes_the_device() -> None:
    message = discovery_message(TOPICS, "Meter cupboard", 180)
    assert TOPICS.discovery == "homeassistant/device/sottovoce_0123456789ab/config"
    assert {"device", "origin", "components", "state_topic", "availability_topic"} <= set(message)
    assert message["device"]["identifiers"] == ["sottovoce_0123456789ab"]
    assert message["device"]["name"] == "Meter cupboard"
    assert message["origin"]["name"] == "sottovoce"
    assert json.loads(json.dumps(message)) == message


def test_every_component_is_a_sensor_with_a_unique_name() -> None:
    components = discovery_message(TOPICS, "x", 180)["components"]
    assert tuple(components) == KEYS
    assert len({item["unique_id"] for item in components.values()}) == len(KEYS)
    for key, component in components.items():
        assert component["platform"] == ("binary_sensor" if key == "needs_a_person" else "sensor")
        assert component["value_template"] == f"{{{{ value_json.{key} }}}}"
        assert component["expire_after"] == 180
        assert re.fullmatch(r"[a-zA-Z0-9_-]+", component["unique_id"])


def test_the_fleet_s_task_has_a_switch() -> None:
    assert "takes_part" not in discovery_message(TOPICS, "x", 180, 0)["components"], "there is no task yet"
    components = discovery_message(TOPICS, "x", 180, 7)["components"]
    assert tuple(components) == (*KEYS, *TASK_KEYS)
    switch = components["takes_part"]
    assert (switch["platform"], switch["command_topic"]) == ("switch", TOPICS.switch)
    assert (switch["payload_on"], switch["payload_off"]) == ("take part in 7", "leave 7")
    assert components["task"]["platform"] == "sensor"


def test_the_prediction_is_an_energy_and_all_others_are_diagnostic() -> None:
    components = discovery_message(TOPICS, "x", 180)["components"]
    prediction = components.pop("prediction")
    assert (prediction["device_class"], prediction["unit_of_measurement"]) == ("energy", "Wh")
    assert "state_class" not in prediction, "an expected energy is not a counter: Home Assistant would add it up"
    assert {component["entity_category"] for component in components.values()} == {"diagnostic"}


def test_a_forecast_has_its_own_topic_and_its_values_are_attributes() -> None:
    assert "forecast" not in discovery_message(TOPICS, "x", 180)["components"], "it is published only on request"
    component = discovery_message(TOPICS, "x", 180, shows_forecast=True)["components"]["forecast"]
    assert component["state_topic"] == component["json_attributes_topic"] == TOPICS.forecast
    assert component["unit_of_measurement"] == "kWh"
    assert component["expire_after"] > 1800, "a new forecast follows every half hour"


def test_the_street_has_its_own_topic_only_on_request() -> None:
    assert "street" not in discovery_message(TOPICS, "x", 180)["components"]
    component = discovery_message(TOPICS, "x", 180, shows_street=True)["components"]["street"]
    assert component["state_topic"] == component["json_attributes_topic"] == TOPICS.street
    assert component["value_template"] == "{{ value_json.kwh }}"
    assert "expire_after" not in component, "a result stays true"
