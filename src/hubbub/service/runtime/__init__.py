"""Infrastructure of both services: HTTP servers, settings, workers, databases, administration, metrics."""
