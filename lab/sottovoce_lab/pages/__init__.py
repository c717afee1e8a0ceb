"""HTML reports: each is one self-contained file with no scripts and no network requests."""
