"""A testbed for a fleet on this machine: planning, running in one or several processes, measuring and reporting."""
