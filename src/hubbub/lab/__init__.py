"""The laboratory: the notes reproduced, and, in time, studies, audits and figures."""
