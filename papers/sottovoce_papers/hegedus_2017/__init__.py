"""Gossip learning under differential privacy: Hegedűs & Jelasity 2017."""
