"""HTML reports: self-contained files without scripts or network requests."""
