"""Sphinx's settings; build.py puts this file next to the pages."""
import os

project = "ParallelLM"
version = release = os.environ["PARALLELLM_VERSION"]
copyright = "the contributors of ParallelLM, Apache-2.0"  # noqa: A001, the name is Sphinx's
extensions = ["myst_parser"]
myst_heading_anchors = 4
exclude_patterns = ["_files"]
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
smartquotes = False
html_theme = "furo"
html_title = f"ParallelLM {version}"
html_static_path = ["_static"]
html_js_files = ["key_filter.js"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
