"""A fleet's directory with its key: what the key signs, and what the directory stores."""

from sottovoce_operator.fleet.ca import Fleet, create_fleet, enrol, open_fleet

__all__ = ["Fleet", "create_fleet", "enrol", "open_fleet"]
