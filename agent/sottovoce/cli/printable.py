"""Foreign text on a terminal: text from a peer or a broker must not control the terminal."""


def printable(words: str) -> str:
    """Return the text, with a space in place of every unprintable character, such as line ends and escape sequences."""
    return "".join(character if character.isprintable() else " " for character in words)
