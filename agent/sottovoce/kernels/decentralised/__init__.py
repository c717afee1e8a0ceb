"""The arithmetic of decentralised learners, as pure functions: one file an idea, imported by name where it is needed.

Nothing here reads records, draws privacy noise or knows peers. Whether a result may leave a device is decided by what
went into it.
"""
