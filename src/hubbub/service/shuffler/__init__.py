"""The shuffler as a service: its core, its store, its HTTP interface and its application."""
