"""Settings of the site that ``make docs`` builds, without a network, into build/docs."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "_extensions"))
sys.path.insert(0, str(Path(__file__).resolve().parent / "figures"))

import calibrant

project = "calibrant"
author = "The calibrant developers"
copyright = author  # noqa: A001
version = release = calibrant.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "mathml",
    "facts",
    "root_pages",
    "offline",
]
exclude_patterns = ["gallery/*.rst", "gallery/*.py", "figures", "_extensions", "_templates"]
templates_path = ["_templates"]
nitpicky = True

# -- pages ---------------------------------------------------------------------------------------

source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3
html_math_renderer = "mathml"  # the browser draws formulas: no script, no fonts, no network

# -- the reference ---------------------------------------------------------------------------------

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # docstrings have the types, in words
autodoc_member_order = "groupwise"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the template of classes lists them
numpydoc_xref_param_type = False

# -- figures ---------------------------------------------------------------------------------------

plot_basedir = str(Path(__file__).resolve().parent)
plot_formats = [("png", 144)]
plot_html_show_formats = False
plot_html_show_source_link = False
plot_include_source = False
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "download_all_examples": False,
    "plot_gallery": True,
    "remove_config_comments": True,
    "reference_url": {"calibrant": None},
}
warnings.filterwarnings("error", category=calibrant.CalibrationWarning)

# -- the look --------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "calibrant"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "changelog": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
