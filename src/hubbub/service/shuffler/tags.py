"""The analyzer's tag keys for tasks of strings, pinned as its keys are."""

from hubbub.documents import Json, parse
from hubbub.errors import FalseClaim
from hubbub.service.runtime.database import Database
from hubbub.service.shuffler.incidents import Incidents
from hubbub.service.task.contract import Contract
from hubbub.service.task.tagkeys import TagKeys

TAG_PINS_TABLE = "tag_pins (task {blob}, key_id BIGINT, public {blob} NOT NULL, PRIMARY KEY (task, key_id))"
TAG_LISTS_TABLE = "tag_lists (task {blob} PRIMARY KEY, document {blob} NOT NULL)"


def pin_tag_keys(database: Database, contract: Contract, text: bytes, incidents: Incidents) -> None:
    """Adopt the signed tag keys of a task, unless they change the bytes that any list before gave to a key id."""
    assert contract.strings is not None
    listed = TagKeys.read(text, contract.analyzer, contract.task, contract.strings.group)
    with database.transaction():
        rows = [(contract.task, key_id, public) for key_id, public in sorted(listed.keys.items())]
        database.insert_new("tag_pins", rows, "key_id")
        query = "SELECT key_id, public FROM tag_pins WHERE task = ?"
        pins = {key_id: bytes(public) for key_id, public in database.rows(query, contract.task)}
        for key_id, public in listed.keys.items():
            if pins[key_id] != public:
                incidents.report("keys-changed", f"the analyzer changed the public bytes of the tag key {key_id}")
                raise FalseClaim(f"the analyzer's tag keys give key {key_id} other bytes than before; refused")
        statement = "INSERT INTO tag_lists VALUES (?, ?) ON CONFLICT (task) DO UPDATE SET document = ?"
        database.run(statement, contract.task, text, text)


def tag_keys_for(database: Database, contract: Contract, key_id: int) -> Json | None:
    """Return the signed tag keys of a task for clients; None until they include a key of the analyzer."""
    if not database.rows("SELECT 1 FROM tag_pins WHERE task = ? AND key_id = ?", contract.task, key_id):
        return None
    rows = database.rows("SELECT document FROM tag_lists WHERE task = ?", contract.task)
    text = bytes(rows[0][0])
    assert contract.strings is not None
    listed = TagKeys.read(text, contract.analyzer, contract.task, contract.strings.group)
    return parse(text, "the tag keys") if key_id in listed.keys else None
