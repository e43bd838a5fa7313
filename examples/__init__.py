"""Applications of hubbub, each planned and simulated at full size: five compared with figures of 2016, and a survey.

Run one with ``python -m examples.home_pages``; ``--people`` makes it smaller.
"""
