"""The services: a shuffler and an analyzer that lose nothing and leak nothing. Needs the extra ``serve``."""
