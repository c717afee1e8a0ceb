"""The lab's commands, which are part of `sottovoce` if the lab is installed."""
