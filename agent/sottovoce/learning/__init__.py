"""Learning in general: types shared by all learners, their registry and their settings."""
