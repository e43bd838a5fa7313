"""The questions of a survey, and how answers become categories; devices use them too, so without numpy."""

from hubbub.questions.choice import Choice, Flag
from hubbub.questions.cross import Cross
from hubbub.questions.number import Number
from hubbub.questions.scale import Scale
from hubbub.questions.survey import Attribute, Question, Questions

__all__ = ["Attribute", "Choice", "Cross", "Flag", "Number", "Question", "Questions", "Scale"]
