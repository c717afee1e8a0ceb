"""Commands for those who run a fleet; `sottovoce` loads each by its name."""
