"""The agreement of devices, shuffler and analyzer: contracts, identities, keys and sealed bundles."""
