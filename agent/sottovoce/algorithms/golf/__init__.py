"""The algorithm `golf`: gossip learning by data perturbation."""
