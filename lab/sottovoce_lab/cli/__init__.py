"""Commands of the lab, which `sottovoce` finds if the lab is installed."""
