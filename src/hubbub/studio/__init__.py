"""The studio: a page in the browser on which a collection is chosen, served to this machine only.

- ``inquiry``: what the page asks for, validated; ``spelling``: the same as a command, as Python and as a survey file;
- ``figures``: a certified plan as the page shows it; ``trials``: simulated collections; ``attacks``: what-ifs;
- ``work``, ``workers``: the computations, in processes of their own that stop when nobody waits for them;
- ``guard``: who may ask, and what the page may load; ``site``: the pages; ``desk``: the answers; ``app``: the routes;
- ``server``: the process behind ``hubbub studio``.
"""
