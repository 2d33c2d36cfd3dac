"""Every link of the built site: Zensical checks those between pages, but neither pictures nor embedded pages."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, file: Path):
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.loads: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.add(value)
                if tag != "a":
                    self.loads.add(value)
            elif name == "id" and value:
                self.places.add(value)


def broken(site: Path) -> list[str]:
    """Links to files and places that are not there, and whatever is loaded from elsewhere."""
    pages = {file: _Page(file) for file in sorted(site.rglob("*.html")) if file.name not in ("404.html",)}
    problems = []
    for file, page in pages.items():
        name = file.relative_to(site)
        problems += [f"{name} loads {link}" for link in sorted(page.loads) if urlsplit(link).netloc]
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if target.is_dir():
                target = target / "index.html"
            places = pages[target].places if target in pages else set()
            if not target.exists() or (parts.fragment and target in pages and unquote(parts.fragment) not in places):
                problems.append(f"{name} links to {link}, which is not there")
    return problems
