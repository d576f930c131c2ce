"""Formulas as MathML, which browsers draw by themselves, from the LaTeX of the pages.

Sphinx' own renderers need MathJax from the network or a LaTeX installation. docutils has a
converter; this hands it to Sphinx as the renderer ``mathml``.
"""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import wrap_math_code
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator



def inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line of text."""
    writer.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def block(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    code = wrap_math_code(node.astext(), as_block=True)
    writer.body.append(f'<div class="math">{tex2mathml(code, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the renderer known to Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
