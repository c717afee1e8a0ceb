"""A vault in a process of its own: the protocol on its Unix socket, its server and its client."""
