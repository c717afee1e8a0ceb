"""Learning algorithms. Each family has its own package with a public state machine, wire payloads and a state codec."""
