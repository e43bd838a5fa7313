"""The data that all parties agree on: questions, protocols, plans, guarantees; devices use it without numpy."""
