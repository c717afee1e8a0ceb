"""The arithmetic of decentralised learners as pure functions. Each module covers one idea and is imported when needed.

Nothing here reads records, draws privacy noise or knows about peers. Whether a result may leave a device depends on the
inputs from which it was computed.
"""
