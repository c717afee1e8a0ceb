"""Synchronous rounds between neighbours."""
