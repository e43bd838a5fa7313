"""Infrastructure shared by both services: servers, settings, workers, database, administration."""
