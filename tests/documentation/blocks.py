"""The blocks of code on a page, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
FENCED = re.compile(
    r"^(?P<margin> *)```(?P<language>\w*)\n(?P<text>.*?)^(?P=margin)```$|^(?P<heading>##+ )", re.DOTALL | re.MULTILINE
)
SHELL = ("", "bash", "console", "sh")


@dataclass(frozen=True)
class Block:
    """A block of a page; `section` counts the headings above it."""

    page: Path
    section: int
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """All blocks of the page, in order."""
    found, section = [], 0
    for match in FENCED.finditer(page.read_text(encoding="utf-8")):
        if match["heading"]:
            section += 1
        else:
            found.append(Block(page, section, match["language"], dedent(match["text"])))
    return found


def programs(page: Path) -> list[str]:
    """What the Python blocks of a page make when read in order.

    They are one program. If the page begins with a block before its first section, each section starts again from that
    block. The README shows excerpts, each on its own.
    """
    found = [block for block in blocks(page) if block.language == "python"]
    if page.name == "README.md":
        return [block.text for block in found]
    start = [block.text for block in found if block.section == 0]
    if not start or len(start) == len(found):
        return ["\n".join(block.text for block in found)] if found else []
    sections = sorted({block.section for block in found} - {0})
    return ["\n".join(start + [block.text for block in found if block.section == section]) for section in sections]


def commands(page: Path) -> Iterator[list[str]]:
    """The arguments of every `asni` in a block for the shell; two spaces or a # begin a remark."""
    for block in blocks(page):
        if block.language in SHELL:
            for line in block.text.replace("\\\n", " ").splitlines():
                command = re.match(r"(?:\$ )?(?:asni|(?:python|torchrun) .*-m asni) +(\w.*)", line)
                if command:
                    yield shlex.split(re.split(r"\s#|  \S", re.sub(r" {2,}(?=-)", " ", command[1]))[0])


def inline_commands(page: Path) -> Iterator[list[str]]:
    """The arguments of every `asni` in the text."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for command in re.findall(r"`asni\s+([a-z][^`]*)`", text):
        yield shlex.split(command)
