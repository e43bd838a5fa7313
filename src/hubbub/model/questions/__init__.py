"""The questions of a survey, and how answers become categories; devices use them too, so without numpy."""

from hubbub.model.questions.choice import Choice, Flag
from hubbub.model.questions.cross import Cross
from hubbub.model.questions.number import Number
from hubbub.model.questions.scale import Scale
from hubbub.model.questions.survey import Attribute, Question, Questions

__all__ = ["Attribute", "Choice", "Cross", "Flag", "Number", "Question", "Questions", "Scale"]
