"""The private half of each learner, in one module each: its computation on records and the bound behind its charge."""
