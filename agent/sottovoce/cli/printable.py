"""Words of others on a terminal: text from a peer or a broker must not control it."""


def printable(words: str) -> str:
    """The words, with a space in the place of whatever is not to be seen: line ends, escape sequences."""
    return "".join(character if character.isprintable() else " " for character in words)
