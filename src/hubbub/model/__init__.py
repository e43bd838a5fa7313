"""What all parties agree on: questions, mechanisms, plans and guarantees, as data; devices use it without numpy."""
