"""Applications of hubbub, each planned, simulated at its full size, and held against figures of 2016.

Run one by ``python -m examples.home_pages``; ``--people`` makes it smaller.
"""
