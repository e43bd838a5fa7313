"""How an answer is hidden: what is drawn, and the error that it leaves in a count."""
