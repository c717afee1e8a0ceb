"""The process `sottovoce feed run` for a home's meters; unlike the agent, it sees the readings but has no key."""
