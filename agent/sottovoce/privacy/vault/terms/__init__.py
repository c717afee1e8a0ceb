"""Terms between each kind of learner and its vault, in one module per kind."""
