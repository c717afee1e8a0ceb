"""A testbed whose agents run in containers started by a compose file: preparation, agent program and report.

The three parts communicate only through directories that the containers share, so no service waits for another one over
a network. See docs/how-to/containers.md.
"""
