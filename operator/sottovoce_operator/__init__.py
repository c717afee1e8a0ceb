"""Commands for those who run a fleet: `sottovoce results` and `sottovoce plan`. Devices do not install this package."""
