"""Learners with one shared model that the devices write in turn."""
