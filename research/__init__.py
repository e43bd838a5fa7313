"""Research that hubbub is checked against; part of the repository, not of the installed package."""
