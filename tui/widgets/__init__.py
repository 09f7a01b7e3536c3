"""The panels. Each file holds one: a pure `render_…(view, width, height)` that returns lines, and its widget.

A screen mounts panels and calls `panel.show(view)` on each refresh; a panel repaints only lines that changed.
Give colours with `panel.palette = Palette(load_theme(…))`. A panel at least 8 lines high is a box, a
lower one a rule with lines below.
"""
