"""The process `sottovoce feed run` for a home's meters and Home Assistant; it sees the readings but has no fleet key."""
