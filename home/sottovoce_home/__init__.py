"""The process for a home's meters and Home Assistant; unlike the agent, it sees the readings but has no key.

Its loggers are named `sottovoce.home.…`, because logging is configured for `sottovoce` and its child loggers.
"""
