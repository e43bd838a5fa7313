"""The shuffler as a service: tasks, uploads, releases, delivery, their store, the HTTP layer and the program."""
