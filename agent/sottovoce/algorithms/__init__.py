"""Algorithms: a folder a family, with its public state machine, its wire payloads and its durable state."""
