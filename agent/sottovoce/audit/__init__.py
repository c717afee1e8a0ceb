"""Does what leaves a device keep the promise? Distinguishing games against the shipped release path."""
