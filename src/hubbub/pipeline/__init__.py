"""From records to tallies: encode, randomize, shuffle, count; ``device`` does a single record without numpy."""
