"""What each kind of learner asks of its vault, and the vault that keeps to it: one file a kind."""
