"""The lab's commands, which `sottovoce` finds where the lab is installed."""
