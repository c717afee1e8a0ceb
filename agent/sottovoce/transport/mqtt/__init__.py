"""Transport over MQTT, through a broker that devices do not trust."""

from sottovoce.transport.mqtt.client import Broker
from sottovoce.transport.mqtt.transport import MqttTransport

__all__ = ["Broker", "MqttTransport"]
