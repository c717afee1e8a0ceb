"""Detection of the meters on a home's broker, and of the `[[feed.meters]]` tables that fit them."""

from sottovoce_home.detection.detector import Detector, known_formats
from sottovoce_home.detection.listen import listen
from sottovoce_home.detection.proposals import choose
from sottovoce_home.detection.report import describe

__all__ = ["Detector", "choose", "describe", "known_formats", "listen"]
