"""Every statement of the five notes, with its status, recomputed live: one module a note."""
