"""Process for a home's meters, `sottovoce feed run`: unlike the agent, it sees the readings but has no key."""
