"""Names from a file system as text that every format can hold."""


def readable(text: str) -> str:
    r"""`text` as valid Unicode: what is no UTF-8 in a file name becomes `\udcff`, as a terminal shows it."""
    return text.encode("utf-8", "backslashreplace").decode()
