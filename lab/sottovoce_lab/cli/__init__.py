"""The lab's commands, which `sottovoce` offers if the lab is installed."""
