"""The topics of a fleet on a broker: no name of a person or place, nothing but the fleet's and the devices' own ids."""

from dataclasses import dataclass

ROOT = "sottovoce/v1"


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
        """Where this device puts what is for another."""
        return f"{ROOT}/{self.fleet}/in/{recipient}/{self.device}"

    def presence(self, device: str) -> str:
        """Where a device says that it is there."""
        return f"{ROOT}/{self.fleet}/peer/{device}"

    @property
    def everybody(self) -> str:
        """Where all of them do."""
        return self.presence("+")

    def sender(self, topic: str) -> str | None:
        """Who put something into this device's inbox; None if it is not there."""
        inbox, _, sender = topic.rpartition("/")
        return sender if inbox == self.inboxes[:-2] else None

    def present(self, topic: str) -> str | None:
        """Whose presence a topic is; None if it is none."""
        above, _, device = topic.rpartition("/")
        return device if above == f"{ROOT}/{self.fleet}/peer" else None
