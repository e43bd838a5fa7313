"""The live page: what an analyzer has released, and the public figures of both services, as they change."""
