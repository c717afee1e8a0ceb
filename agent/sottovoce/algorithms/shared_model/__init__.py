"""Learners with one shared model that the devices update in turn."""
