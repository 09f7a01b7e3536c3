"""Theme data and its loader."""

from specmon.themes.loader import ROLES, TEXT_ROLES, Theme, ThemeError, contrast, load_theme, theme_names

__all__ = ["ROLES", "TEXT_ROLES", "Theme", "ThemeError", "contrast", "load_theme", "theme_names"]
