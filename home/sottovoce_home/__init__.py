"""The process of a home's meters and Home Assistant; unlike the agent, it sees the readings but has no key.

Its loggers are named `sottovoce.home.…`, because the device's logging is configured for `sottovoce` and all below it.
"""
