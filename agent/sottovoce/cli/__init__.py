"""Package of the command `sottovoce`: it parses, calls and prints."""
