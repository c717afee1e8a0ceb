"""Sanitising of text from peers and brokers, which must not control the terminal."""


def sanitise(text: str) -> str:
    """Return the text with every unprintable character, such as a line end or an escape, replaced by a space."""
    return "".join(character if character.isprintable() else " " for character in text)
