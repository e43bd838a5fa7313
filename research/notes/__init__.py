"""Every statement of the five research notes, recomputed and judged.

- ``statements``: one check per statement, with its status and remark;
- ``formulas``: formulas of the notes that hubbub itself does not use;
- ``readings``: the table of [003 §3.3] beside the true values;
- ``figures``, ``page``: charts, and the HTML page that holds everything;
- ``command``: the command line, ``python -m research.notes``.
"""
