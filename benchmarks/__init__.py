"""Figures that the design promises, each measured against its peer or its primitive in one run."""
