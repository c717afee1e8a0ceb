"""Testbed whose agents are containers that a compose file starts: its preparation, their program, and their reports.

The three parts meet in directories that the containers share, and nowhere else: no service waits for another over a
network. See docs/how-to/containers.md.
"""
