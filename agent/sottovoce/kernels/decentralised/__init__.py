"""The arithmetic of decentralised learners, as pure functions: one module per idea, imported where it is needed.

Nothing here reads records, draws privacy noise or knows peers. Whether a result may leave a device depends on the
inputs from which it was computed.
"""
