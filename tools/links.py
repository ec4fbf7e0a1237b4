"""Every relative link and anchor in our Markdown leads somewhere, and every page of docs/ can be reached."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
SKIPPED = {".git", ".venv", "node_modules", "build", "dist"}
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
SOURCE = re.compile(r"<(?:img|source|a)\b[^>]*?\b(?:src|srcset|href)=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:")


def main(root: Path = ROOT) -> int:
    pages = sorted(page for page in root.rglob("*.md") if not SKIPPED & set(page.relative_to(root).parts))
    problems = [problem for page in pages for problem in broken_links(page, root)]
    problems += unreachable(pages, root / "docs")
    print("\n".join(problems) or f"{len(pages)} pages, every link leads somewhere")
    return 1 if problems else 0


def broken_links(page: Path, root: Path) -> Iterator[str]:
    for link in links(page):
        target, anchor = resolve(page, link)
        if not target.exists():
            yield f"{page.relative_to(root)}: {link} does not exist"
        elif not target.is_relative_to(root):
            yield f"{page.relative_to(root)}: {link} leaves the repository"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{page.relative_to(root)}: {link} has no such heading"


def unreachable(pages: list[Path], docs: Path) -> list[str]:
    """Pages under docs/ that no chain of links from docs/README.md leads to."""
    seen: set[Path] = set()
    ahead = [docs / "README.md"]
    while ahead:
        page = ahead.pop()
        if page in seen or page.suffix != ".md" or not page.exists():
            continue
        seen.add(page)
        ahead += [resolve(page, link)[0] for link in links(page)]
    lost = [page for page in pages if page.is_relative_to(docs) and page not in seen]
    return [f"{page.relative_to(docs.parent)}: no page leads here from docs/README.md" for page in lost]


def links(page: Path) -> list[str]:
    text = CODE.sub("", FENCE.sub("", page.read_text()))
    return [link for link in [*LINK.findall(text), *SOURCE.findall(text)] if not ELSEWHERE.match(link)]


def resolve(page: Path, link: str) -> tuple[Path, str]:
    path, _, anchor = unquote(link).partition("#")
    target = (page.parent / path).resolve() if path else page
    return (target / "README.md" if target.is_dir() and (target / "README.md").exists() else target), anchor


def anchors(page: Path) -> set[str]:
    """The names a heading gets where Markdown is shown, repeated ones numbered."""
    text = FENCE.sub("", page.read_text())
    found = set(ANCHOR.findall(text))
    for heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        count = 0
        while (name := f"{slug}-{count}" if count else slug) in found:
            count += 1
        found.add(name)
    return found


if __name__ == "__main__":
    sys.exit(main())
