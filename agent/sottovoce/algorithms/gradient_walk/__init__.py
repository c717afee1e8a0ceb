"""Gossip learning by gradient perturbation."""
