"""`sottovoce feed run`, the process of a home. It has the readings, which the agent does not; it has no key."""
