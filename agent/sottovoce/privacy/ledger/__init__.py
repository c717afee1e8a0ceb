"""The ledger, which records every charge on disk before the release that it pays for."""
