"""A fleet's MQTT topics, which contain the fleet name and device ids but no names of people or places."""

import re
from dataclasses import dataclass

ROOT = "sottovoce/v1"
_NODE_ID = re.compile(r"[a-z2-7]{32}")


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics that one device uses on the broker.

    Attributes:
        fleet: the name of the device's fleet.
        device: the device's node id.
    """

    fleet: str
    device: str

    @property
    def inboxes(self) -> str:
        """The topic filter for all messages to this device."""
        return f"{ROOT}/{self.fleet}/in/{self.device}/+"

    def inbox_from(self, sender: str) -> str:
        """Return the topic for messages from one device to this one."""
        return f"{self.inboxes[:-1]}{sender}"

    def inbox(self, recipient: str) -> str:
        """Return the topic for messages from this device to another device."""
        return f"{ROOT}/{self.fleet}/in/{recipient}/{self.device}"

    def presence(self, device: str) -> str:
        """Return the topic of a device's presence announcements."""
        return f"{ROOT}/{self.fleet}/peer/{device}"

    @property
    def all_presences(self) -> str:
        """The topic filter for the presence announcements of all devices."""
        return self.presence("+")

    def sender(self, topic: str) -> str | None:
        """Return the sender of a message in this device's inbox, or None for any other topic."""
        return _device(topic, self.inboxes[:-2])

    def present_device(self, topic: str) -> str | None:
        """Return the node id of the device whose presence is announced on a topic, or None for any other topic."""
        return _device(topic, f"{ROOT}/{self.fleet}/peer")


def _device(topic: str, prefix: str) -> str | None:
    """Return the last level of a topic if it is a node id under the topic `prefix`, and None otherwise.

    An untrusted broker may send topics of any content and length.
    """
    parent, _, device = topic.rpartition("/")
    return device if parent == prefix and _NODE_ID.fullmatch(device) else None
