"""HTML reports, each of which is a self-contained file without scripts or network requests."""
