"""Terms of each kind of learner for its vault, and the vault that keeps to them: one module per kind."""
