"""The arithmetic of decentralised learners as pure functions. Each module covers one idea and is imported on demand.

Nothing in this package reads records, draws privacy noise or knows about peers. Whether a result may leave a device
depends on the inputs it was computed from.
"""
