"""The questions of a schema, and how answers become labels; devices use them too, so without numpy."""

from hubbub.model.questions.choice import Choice, Flag, Several
from hubbub.model.questions.cross import Cross
from hubbub.model.questions.number import Number
from hubbub.model.questions.scale import Scale
from hubbub.model.questions.survey import Column, Question, Questions
from hubbub.model.questions.text import Text

__all__ = ["Choice", "Column", "Cross", "Flag", "Number", "Question", "Questions", "Scale", "Several", "Text"]
