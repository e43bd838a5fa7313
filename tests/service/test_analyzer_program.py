"""The analyzer as a program: it serves its contracts, counts what arrives, and destroys no key that is held."""

import asyncio
from pathlib import Path

import pytest
from tests.service.analyzer_system import (
    ANALYZER,
    GRACE,
    LIFETIME,
    START,
    FakeShuffler,
    contract_of,
    signed,
    small_plan,
)

from hubbub.errors import StoreFailure
from hubbub.service.analyzer.app import AnalyzerProgram, _AnalyzerCommands
from hubbub.service.runtime.clock import MockClock
from hubbub.service.runtime.settings import AnalyzerConfig, Common

CONTRACT = contract_of(small_plan(), suite=2)


@pytest.fixture
def config(tmp_path: Path) -> AnalyzerConfig:
    ANALYZER.save(tmp_path / "identity")
    path = tmp_path / "contract.json"
    path.write_bytes(signed(CONTRACT))
    common = Common(
        folder=tmp_path / "analyzer",
        credentials=tmp_path / "analyzer" / "credentials",
        identity=tmp_path / "identity",
        contracts=(path,),
        unsafe_test=True,
        workers=0,
        key_lifetime=LIFETIME,
        key_grace=GRACE,
    )
    return AnalyzerConfig(common=common)


def test_10_a_program_serves_a_contract_of_the_other_suite_and_counts_it(config: AnalyzerConfig) -> None:
    program = AnalyzerProgram(config, MockClock(START))
    core, shuffler = program.core, FakeShuffler(CONTRACT)
    assert program.ready()
    key = core.keyring.active(2)
    sent = shuffler.batch(2, shuffler.people(["1"] * 20, key), key, chunk=8)
    assert core.put_manifest(sent.id, sent.document) == [0, 1, 2]
    for index, data in enumerate(sent.chunks):
        core.put_chunk(sent.id, index, data)
    asyncio.run(program._count())
    assert isinstance(core.put_manifest(sent.id, sent.document), bytes)
    live = program._live()
    assert (live["batches_committed"], live["batches_arriving"], live["unknown_buckets"]) == (1, 0, 1)
    status = _AnalyzerCommands(program).status()["tasks"]
    assert isinstance(status, dict)
    assert status[CONTRACT.id] == {
        "arriving": 0,
        "committed": 1,
        "withheld": 0,
        "abandoned": 0,
        "bundles": 20,
        "withheld_bundles": 0,
        "unknown_buckets": 1,
    }
    program.close()


def test_4_neither_a_start_nor_the_operator_destroys_a_held_key(config: AnalyzerConfig) -> None:
    clock = MockClock(START)
    program = AnalyzerProgram(config, clock)
    key = program.core.keyring.active(2)
    program.core.put_keys_in_use(CONTRACT.task, FakeShuffler(CONTRACT).keys_in_use(key.id))
    for _ in range(3):
        clock.advance(2 * LIFETIME)
        _AnalyzerCommands(program).rotate()
        asyncio.run(program._advance())
        program.close()
        program = AnalyzerProgram(config, clock)
    assert program.core.keyring.private(key.id) is not None
    program.close()


def test_a_store_without_its_credential_folder_does_not_start(config: AnalyzerConfig) -> None:
    AnalyzerProgram(config, MockClock(START)).close()
    for path in (config.common.folder / "credentials").iterdir():
        path.unlink()
    with pytest.raises(StoreFailure, match="credential folder of the analyzer is empty"):
        AnalyzerProgram(config, MockClock(START))
