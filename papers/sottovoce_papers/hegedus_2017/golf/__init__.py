"""The `golf` algorithm: gossip learning by data perturbation."""
