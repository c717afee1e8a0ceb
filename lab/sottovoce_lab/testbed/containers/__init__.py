"""A testbed whose agents are containers that a compose file starts: what it prepares, what they run, what they report.

The three parts meet in directories that the containers share, and nowhere else: no service waits for another over a
network. See docs/how-to/containers.md.
"""
