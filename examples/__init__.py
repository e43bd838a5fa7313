"""Five applications of hubbub, each planned, simulated at full size, and compared with figures of 2016.

Run one with ``python -m examples.home_pages``; ``--people`` makes it smaller.
"""
