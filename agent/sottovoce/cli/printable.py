"""Sanitising of foreign text: text from a peer or a broker must not control the terminal."""


def printable(words: str) -> str:
    """Return the text with every unprintable character, such as a line end or an escape, replaced by a space."""
    return "".join(character if character.isprintable() else " " for character in words)
