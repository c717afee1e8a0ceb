"""Process of a home, `sottovoce feed run`. It has the readings, which the agent lacks, and no key."""
