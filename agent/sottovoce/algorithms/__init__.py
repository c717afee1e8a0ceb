"""Algorithms. Each family has a folder with its public state machine, its wire payloads and its durable state."""
