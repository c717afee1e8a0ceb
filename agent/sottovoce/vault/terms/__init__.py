"""Terms between each kind of learner and its vault, and the vault that enforces them; one module per kind."""
