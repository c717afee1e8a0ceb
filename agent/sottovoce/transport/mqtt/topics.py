"""Topics of a fleet on a broker; they contain the fleet's name and device ids, but no names of people or places."""

import re
from dataclasses import dataclass

ROOT = "sottovoce/v1"
_NODE_ID = re.compile(r"[a-z2-7]{32}")


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics of one device on the broker.

    Attributes:
        fleet: its fleet.
        device: its node id.
    """

    fleet: str
    device: str

    @property
    def inboxes(self) -> str:
        """Topic filter of all messages to this device."""
        return f"{ROOT}/{self.fleet}/in/{self.device}/+"

    def inbox(self, recipient: str) -> str:
        """Return the topic of this device's messages for another."""
        return f"{ROOT}/{self.fleet}/in/{recipient}/{self.device}"

    def presence(self, device: str) -> str:
        """Return the topic of a device's presence."""
        return f"{ROOT}/{self.fleet}/peer/{device}"

    @property
    def all_presences(self) -> str:
        """Topic filter of every device's presence."""
        return self.presence("+")

    def sender(self, topic: str) -> str | None:
        """Return the sender of a message in this device's inbox; None for another topic, or without a device id."""
        return _device(topic, self.inboxes[:-2])

    def present_device(self, topic: str) -> str | None:
        """Return the node id of the device whose presence a topic is; None for other topics, or without a device id."""
        return _device(topic, f"{ROOT}/{self.fleet}/peer")


def _device(topic: str, above: str) -> str | None:
    """Return the last level of a topic under another, which a broker may fill with anything of any length."""
    found, _, device = topic.rpartition("/")
    return device if found == above and _NODE_ID.fullmatch(device) else None
