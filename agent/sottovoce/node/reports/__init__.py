"""Reports for people: what a device promises, and how much of its budget it has spent."""
