"""Recipes by name; those of packages behind this one are imported when a run or an experiment asks for them."""

from vlnbert.learning.experiment import ExperimentSettings
from vlnbert.learning.navigator_recipe import NavigatorRecipe
from vlnbert.learning.recipe import Recipe
from vlnbert.registry import Registry

RECIPES: Registry[Recipe] = Registry("recipe")
NAVIGATOR = RECIPES.register(NavigatorRecipe.name, NavigatorRecipe())
RECIPES.announce("speaker", "vlnbert.speaker.recipe", "RECIPE")


def recipe_of(experiment: ExperimentSettings) -> Recipe:
    """The recipe of an experiment."""
    return RECIPES[experiment.RECIPE]
