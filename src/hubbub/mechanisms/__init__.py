"""The noise that hides an answer: its draws, and the error that it leaves in a count."""
