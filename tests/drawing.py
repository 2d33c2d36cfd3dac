"""What was drawn on a terminal, as text."""

import io
import re


def drawn_lines(text: io.StringIO) -> list[str]:
    """Every line that was ever drawn, in the order of drawing."""
    plain = re.sub(r"\x1b\[[?\d;]*[A-Za-z]", "", text.getvalue())
    return [line.rstrip() for line in re.split(r"[\r\n]+", plain) if line.strip()]
