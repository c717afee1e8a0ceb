"""Gossip learning by data perturbation."""
