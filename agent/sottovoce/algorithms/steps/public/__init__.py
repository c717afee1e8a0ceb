"""Public half of private steps, which never touches records."""
