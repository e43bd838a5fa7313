"""Programs that maintain the repository: the check of a built wheel and the inventory of licences."""
