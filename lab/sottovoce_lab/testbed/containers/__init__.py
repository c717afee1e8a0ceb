"""Testbed whose agents are containers that a compose file starts: the preparation, the agents' program, and the report.

The three parts communicate only through directories that the containers share: no service waits for another service
over a network. See docs/how-to/containers.md.
"""
