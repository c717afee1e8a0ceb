"""Algorithms: one folder per family, with its public state machine, its wire payloads and its durable state."""
