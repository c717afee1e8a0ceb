"""Public half of golf, which never touches unperturbed records."""
