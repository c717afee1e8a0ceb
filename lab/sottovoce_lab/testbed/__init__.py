"""A fleet on this machine: its plan, its run in one process or several, its measurements, and its report."""
