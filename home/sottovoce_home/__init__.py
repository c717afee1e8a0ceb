"""The process of a home's meters and Home Assistant; unlike the agent, it sees the readings but has no key."""
