"""The command `sottovoce`: it parses, calls and prints."""
