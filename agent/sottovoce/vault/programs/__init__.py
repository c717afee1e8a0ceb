"""The private half of each learner, one module each: its computation on records, and the bound that sets its charge."""
