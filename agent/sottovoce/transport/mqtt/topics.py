"""The topics of a fleet on a broker: no name of a person or place, nothing but the fleet's and the devices' own ids."""

import re
from dataclasses import dataclass

ROOT = "sottovoce/v1"
_NODE_ID = re.compile(r"[a-z2-7]{32}")


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of one device.

    Attributes:
        fleet: its fleet.
        device: its node id.
    """

    fleet: str
    device: str

    @property
    def inboxes(self) -> str:
        """Everything that is sent to this device."""
        return f"{ROOT}/{self.fleet}/in/{self.device}/+"

    def inbox(self, recipient: str) -> str:
        """Topic of this device's messages for another."""
        return f"{ROOT}/{self.fleet}/in/{recipient}/{self.device}"

    def presence(self, device: str) -> str:
        """Topic of a device's presence."""
        return f"{ROOT}/{self.fleet}/peer/{device}"

    @property
    def everybody(self) -> str:
        """Topic filter of every device's presence."""
        return self.presence("+")

    def sender(self, topic: str) -> str | None:
        """Sender of a message in this device's inbox; None if it is another topic, or no device's id."""
        return _device(topic, self.inboxes[:-2])

    def present(self, topic: str) -> str | None:
        """Whose presence a topic is; None if it is not one, or that cannot be a device."""
        return _device(topic, f"{ROOT}/{self.fleet}/peer")


def _device(topic: str, above: str) -> str | None:
    """The last level of a topic under another, which a broker may fill with anything of any length."""
    found, _, device = topic.rpartition("/")
    return device if found == above and _NODE_ID.fullmatch(device) else None
