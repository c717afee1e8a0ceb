"""Documents about a device's ledger and its privacy promise, for its owner and for auditors."""
