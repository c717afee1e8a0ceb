"""Transport over MQTT. The broker carries messages and is trusted with nothing."""

from sottovoce.transport.mqtt.client import Broker
from sottovoce.transport.mqtt.transport import MqttTransport

__all__ = ["Broker", "MqttTransport"]
