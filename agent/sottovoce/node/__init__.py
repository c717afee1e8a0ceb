"""The agent: one learner, one vault, one durable state, and the links to its peers."""
