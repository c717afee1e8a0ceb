"""The figures of Hegedűs & Jelasity 2017, regenerated: declarative grids of simulations, and one runner."""

from sottovoce_lab.experiments.figures.output import regenerate
from sottovoce_lab.experiments.figures.specification import FigureSpec, figure_named, figure_names

__all__ = ["FigureSpec", "figure_named", "figure_names", "regenerate"]
