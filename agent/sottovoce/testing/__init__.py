"""Contract suite for plug-ins: each function checks one kind, and raises AssertionError with what is broken.

A plug-in's author calls these functions from the package's own tests. They are not used on devices.
"""

from sottovoce.testing.parts import check_data_kind, check_mechanism, check_meter_source, check_transport
from sottovoce.testing.play import check_learner

__all__ = ["check_data_kind", "check_learner", "check_mechanism", "check_meter_source", "check_transport"]
