"""Networking: listening sockets, transports, and the signed messages that they carry."""
