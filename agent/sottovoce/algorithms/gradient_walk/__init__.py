"""The algorithm `gradient-walk`: gossip learning by gradient perturbation."""
