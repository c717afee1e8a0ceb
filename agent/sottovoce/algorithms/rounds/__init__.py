"""Learners in synchronous rounds between neighbours."""
