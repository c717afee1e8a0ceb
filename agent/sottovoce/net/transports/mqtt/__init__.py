"""Transport over MQTT, through a broker that devices do not trust."""

from sottovoce.net.transports.mqtt.client import Broker
from sottovoce.net.transports.mqtt.transport import MqttTransport

__all__ = ["Broker", "MqttTransport"]
