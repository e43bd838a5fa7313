"""The relay: it forwards requests of clients to shuffler and analyzer, and strips everything that could name them."""
