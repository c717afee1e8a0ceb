"""Cost of releases: events, and how they compose. Public arithmetic: nothing here has ever seen a record."""
