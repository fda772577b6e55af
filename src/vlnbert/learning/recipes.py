"""Recipes by name."""

from vlnbert.learning.experiment import ExperimentSettings
from vlnbert.learning.navigator_recipe import NavigatorRecipe
from vlnbert.learning.recipe import Recipe
from vlnbert.learning.speaker_recipe import SpeakerRecipe
from vlnbert.registry import Registry

RECIPES: Registry[Recipe] = Registry("recipe")
NAVIGATOR, SPEAKER = NavigatorRecipe(), SpeakerRecipe()
RECIPES.register(NAVIGATOR.name, NAVIGATOR, NavigatorRecipe.__module__)
RECIPES.register(SPEAKER.name, SPEAKER, SpeakerRecipe.__module__)


def recipe_of(experiment: ExperimentSettings) -> Recipe:
    """The recipe of an experiment."""
    return RECIPES[experiment.RECIPE]
