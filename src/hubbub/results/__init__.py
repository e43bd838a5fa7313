"""From tallies to figures with intervals: estimates, tables, comparisons."""
