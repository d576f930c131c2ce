"""Formulas as MathML, which browsers draw by themselves, from the LaTeX of the pages.

Sphinx' own renderers need MathJax from the network or a LaTeX installation. docutils has a
converter; this hands it to Sphinx as the renderer ``mathml``. A formula that it does not know is a
warning, which ``make docs`` takes for an error.
"""

from __future__ import annotations

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

FUNCTION = r"\\(?:exp|log|tanh|operatorname\{\w+\})"
BEFORE = re.compile(rf"(?<=[\w)}}\]])\s*({FUNCTION})")
AFTER = re.compile(rf"({FUNCTION})\s*(?=[A-Za-z]|\\(?!left))")
LOGGER = logging.getLogger(__name__)


def converted(node: nodes.math | nodes.math_block, *, block: bool) -> str:
    """The formula of a node as MathML; its LaTeX where that fails."""
    try:
        return tex2mathml(spaced(node.astext()), as_block=block)
    except MathError as error:
        LOGGER.warning("formula %r: %s", node.astext(), error, location=node)
        return node.astext()


def spaced(latex: str) -> str:
    """The formula with the thin spaces around functions that LaTeX has and the converter not."""
    return AFTER.sub(r"\1\\, ", BEFORE.sub(r"\\, \1", latex))


def inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line of text."""
    writer.body.append(converted(node, block=False))
    raise nodes.SkipNode


def block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    writer.body.append(f'<div class="math">{converted(node, block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the renderer known to Sphinx."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(inline, None), block_renderers=(block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
