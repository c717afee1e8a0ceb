"""The `sottovoce` command: argument parsing, calls into the agent, and output."""
