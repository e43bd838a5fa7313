"""The analyzer as a service: manifests, verdicts, results, their store, the HTTP layer and the program."""
