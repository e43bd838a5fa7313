"""The privacy theorems, one module per protocol family."""
