"""How much memory a training needs, from the model's shape and the recipe: counted, not guessed."""

from tuneloop.tools.memory.estimate import Cluster, MemoryEstimate, Recipe, estimate_memory
from tuneloop.tools.memory.shape import Shape, shape_of_config, shape_of_weights

__all__ = ["Cluster", "MemoryEstimate", "Recipe", "Shape", "estimate_memory", "shape_of_config", "shape_of_weights"]
