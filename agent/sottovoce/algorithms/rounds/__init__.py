"""Learners that run in synchronous rounds between neighbours."""
