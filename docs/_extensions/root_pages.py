"""Links between the site and the pages at the root of the repository, such as CONTRIBUTING.md.

Those pages belong at the root; docs/developing includes them. In the sources all links are those
that work on a code host. In the site, links to such a page lead to its copy, and links in a copy
are turned to where it lies.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from sphinx.application import Sphinx

TO_ROOT = re.compile(r"\]\((?:\.\./)+([A-Z]+)\.md(#[^)]*)?\)")
FROM_ROOT = re.compile(r"\[([^]]*)\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")


def of_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Turn links to pages at the root into links to their copies."""
    up = "../" * len(PurePosixPath(docname).parent.parts)
    source[0] = TO_ROOT.sub(
        lambda link: f"]({up}developing/{link[1].lower()}.md{link[2] or ''})", source[0]
    )


def of_copy(app: Sphinx, path: Path, docname: str, source: list[str]) -> None:
    """Turn the links of a page at the root, as seen from the root, to where its copy lies."""

    def turned(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        if target.startswith("docs/"):
            return f"[{text}](../{target.removeprefix('docs/')}{anchor})"
        if target.endswith(".md"):
            return f"[{text}]({target.lower()}{anchor})"
        return text  # files and folders that are no pages

    source[0] = FROM_ROOT.sub(turned, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Turn the links of every page as it is read."""
    app.connect("source-read", of_page)
    app.connect("include-read", of_copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
