"""The choice of the analyzer's key for a new bucket."""

from hubbub.service.task.keylist import KeyList


def next_key(listed: KeyList | None, suite: int, current: int) -> tuple[int, str]:
    """Return the key for a new bucket and the digest of its list; 0 and an empty string if there is none.

    Never an older key than the current one: the analyzer may have been told that nothing waits under it.
    """
    if listed is None:
        return 0, ""
    active = [key.id for key in listed.keys if key.state == "active" and key.suite == suite]
    if active and active[0] < current and (kept := listed.find(current)) is not None and kept.suite == suite:
        active = [current]
    return (active[0], listed.digest) if active else (0, "")
