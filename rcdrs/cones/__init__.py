"""Projection-computable cones, one file each; `Product` composes them."""

from rcdrs.cones.base import Cone
from rcdrs.cones.box import Box
from rcdrs.cones.nonneg import Nonneg
from rcdrs.cones.product import Product
from rcdrs.cones.psd import PSD
from rcdrs.cones.rotated import RotatedSecondOrder
from rcdrs.cones.second_order import SecondOrder

__all__ = ["PSD", "Box", "Cone", "Nonneg", "Product", "RotatedSecondOrder", "SecondOrder"]
