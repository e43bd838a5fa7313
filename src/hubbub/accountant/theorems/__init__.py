"""The privacy theorems, one module per protocol family, and attacks that bound them from below."""
