"""A year of meters, in minutes: the feeds' code, the agent's core, vaults and ledgers, under a virtual clock."""
