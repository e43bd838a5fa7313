"""Series: everyone answers once per round, rounds are charged to a ledger, and the total is never exceeded."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.service.admissions import TICKET_KEY
from tests.service.crash import ROUND_POINTS
from tests.service.crashes import killed_at
from tests.service.samples import ANALYZER, SHUFFLER, contract
from tests.service.system import EPOCH, START, Client, System, clear_plan, plan_of

import hubbub as hb
from hubbub.accountant.overflow import min_slots, overflow
from hubbub.accountant.repeated import repeated_epsilon
from hubbub.errors import Infeasible, InvalidInput, Problem, WireError
from hubbub.model.privacy import Budget
from hubbub.service.provision import closing_size, draft_contract
from hubbub.service.runtime.credentials import Credentials
from hubbub.service.task.admission import Admission
from hubbub.service.task.contract import (
    MAX_SERIES,
    ROUND_GRACE,
    Contract,
    Series,
    SignedContract,
    load_contract,
    round_context,
    round_contexts,
)
from hubbub.service.task.manifest import Manifest

ROUNDS, MINIMUM = 3, 6
PLAN = clear_plan(16, 5)
"""Nearly without noise, 48-private in a round."""
TOTAL = Budget(3 * 48.5, 0.0)
FIRST = START // EPOCH


def series_system(folder: Path, *, rounds: int = ROUNDS, round_epochs: int = 1, **options: Any) -> System:
    """Return a system with a series that begins now."""
    series = Series(rounds, round_epochs, Budget(rounds * 48.5, 0.0))
    return System(folder, plan=PLAN, min_batch_size=MINIMUM, series=series, task_end=FIRST + series.epochs, **options)


@pytest.fixture
def system(tmp_path: Path) -> System:
    return series_system(tmp_path)


def tickets(system: System, number: int, count: int = MINIMUM) -> list[bytes]:
    """Return the tickets of the same accounts for a round."""
    context = system.contract.context_of(number)
    return [TICKET_KEY.mint(context, f"account {i}") for i in range(count)]


def answer(system: System, number: int = 0, count: int = MINIMUM, client: Client | None = None) -> list[bytes]:
    """Let the same people answer in a round, and return their bundles."""
    client = client or system.client_of(system.contract, number)
    admissions = tickets(system, client.round, count)
    bundles = [client.seal(str(value), ticket) for value, ticket in enumerate(admissions)]
    system.upload(*bundles)
    return bundles


def refusal(system: System, *bundles: bytes) -> str:
    with pytest.raises(Problem) as caught:
        system.upload(*bundles)
    return caught.value.name


def play(system: System, rounds: int) -> None:
    """Let everyone answer in each of some rounds, release, deliver and count."""
    for _ in range(rounds):
        answer(system)
        assert len(system.next_epoch()) == 1
        system.deliver()


# -- contracts --


def test_rounds_follow_from_the_epoch() -> None:
    terms = contract(PLAN, series=Series(4, 3, Budget(200, 0.0)), task_end=400_012)
    epochs = [399_999, 400_000, 400_002, 400_003, 400_011, 400_012, 10**6]
    assert [terms.round_of(epoch) for epoch in epochs] == [1, 1, 1, 2, 4, 4, 4]
    assert [contract(PLAN).round_of(epoch) for epoch in epochs] == [1] * len(epochs)
    assert terms.contexts == {round_context(terms.task, number): number for number in (1, 2, 3, 4)}
    assert len({terms.task, contract(PLAN).task, *terms.contexts}) == 6
    assert contract(PLAN).contexts == {contract(PLAN).task: 1}
    assert contract(PLAN).layout_of(1) == contract(PLAN).layout


def test_a_series_survives_its_round_trip() -> None:
    terms = contract(PLAN, series=Series(4, 3, Budget(200, 1e-9)), task_end=400_012)
    assert Contract.from_json(terms.to_json()) == terms
    assert json.loads(terms.to_json())["series"] == {
        "rounds": 4, "round_epochs": 3, "total": {"epsilon": 200, "delta": 1e-9}
    }  # fmt: skip
    assert json.loads(contract(PLAN).to_json())["series"] is None


def test_the_series_is_part_of_the_task() -> None:
    tasks = {
        contract(PLAN, series=series, task_end=400_012).task
        for series in (
            None,
            Series(4, 3, Budget(200, 0.0)),
            Series(4, 3, Budget(201, 0.0)),
            Series(6, 2, Budget(999, 0)),
        )
    }
    assert len(tasks) == 4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rounds": 0}, "rounds"),
        ({"rounds": MAX_SERIES + 1}, "rounds"),
        ({"rounds": 1.5}, "rounds"),
        ({"round_epochs": 0}, "round_epochs"),
        ({"total": {"epsilon": -1, "delta": 0}}, "epsilon"),
        ({"total": {"epsilon": 1, "delta": 1}}, "delta"),
        ({"total": {"epsilon": 1}}, "total"),
        ({"total": None}, "total"),
        ({"weeks": 3}, "the series must be an object"),
        ({"rounds": 5}, "task_end must be 15 epochs after task_start"),
    ],
)
def test_invalid_series_are_refused(changes: dict[str, Any], message: str) -> None:
    terms = contract(PLAN, series=Series(4, 3, Budget(200, 0.0)), task_end=400_012)
    document: Any = terms.to_document()
    document["series"] |= changes
    with pytest.raises(WireError, match=message):
        Contract.from_document(document)


def test_values_of_other_types_are_refused() -> None:
    with pytest.raises(InvalidInput, match="total"):
        Series(1, 1, (1.0, 0.0))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="series"):
        contract(PLAN, series=(4, 3))


def test_a_series_does_not_admit_by_blind_token() -> None:
    """An account could save the tokens of all rounds, and spend them in one."""
    from tests.service.admissions import TOKEN_KEY

    token = Admission("token", "tests", TOKEN_KEY.public)
    with pytest.raises(Infeasible, match="cannot see for which round"):
        contract(PLAN, series=Series(4, 3, Budget(200, 0.0)), task_end=400_012, admission=token)


def signed(series: Series | None, plan: hb.Plan) -> bytes:
    end = 400_000 + (1 if series is None else series.epochs)
    terms = contract(plan, series=series, task_end=end, min_batch_size=max(plan.n, 100))
    return SignedContract.sign(terms, ANALYZER, SHUFFLER).to_json()


def test_a_contract_whose_rounds_exceed_the_total_is_not_loaded() -> None:
    plan = hb.plan_from(hb.Schema.one_hot(3), 1000, hb.Protocol(0.3), delta=1e-9)
    total = repeated_epsilon(plan, 52, 1e-6, min_slots(plan))
    load_contract(signed(Series(52, 1, Budget(total, 1e-6)), plan))
    for series in (
        Series(53, 1, Budget(total, 1e-6)),
        Series(52, 1, Budget(total, 1e-7)),
        Series(52, 1, Budget(0.1, 0)),
    ):
        with pytest.raises(Infeasible, match="must cost at most the total of the series") as caught:
            load_contract(signed(series, plan))
        assert "agree on fewer rounds" in str(caught.value)


def test_a_year_of_weekly_rounds_is_verified() -> None:
    plan = hb.plan_from(hb.Schema.one_hot(256), 10_000, hb.Protocol(0.2), delta=1e-9)
    text = signed(Series(52, 1, Budget(10.0, 1e-6)), plan)
    assert load_contract(text).contract.rounds == 52


# -- what rounds cost --


@pytest.mark.parametrize("rounds", [1, 7, 52])
def test_the_cost_of_rounds_is_that_of_the_ledger(rounds: int) -> None:
    protocol, schema = hb.Protocol(0.3), hb.Schema.one_hot(3)
    plan = hb.plan_from(schema, 1000, protocol, delta=1e-9)
    ledger = hb.Ledger().charge_protocol(protocol, schema, 1000, rounds=rounds)
    assert repeated_epsilon(plan, rounds, 1e-6) == pytest.approx(ledger.epsilon(1e-6), rel=0.01)


def test_pure_rounds_add_up() -> None:
    assert repeated_epsilon(PLAN, 3, 0.0) == pytest.approx(3 * 48.0)
    assert repeated_epsilon(plan_of(), 3, 0.0) == float("inf")


def test_the_total_assumes_no_more_than_the_plan() -> None:
    """A plan that counts on one honest user must not be composed with theorems that need a crowd."""
    protocol, schema = hb.Protocol(0.25), hb.Schema.bits(1)
    crowd = hb.plan_from(schema, 1000, protocol, delta=1e-9)
    alone = hb.plan_from(schema, 1000, protocol, delta=1e-9, trust="nobody")
    assert (crowd.guarantee.assumptions.honest, alone.guarantee.assumptions.honest) == (1000, 1)
    local = alone.guarantee.assumptions.collusion_epsilon
    assert repeated_epsilon(crowd, 5, 1e-6) < local < repeated_epsilon(alone, 5, 1e-6) <= 5 * local * (1 + 1e-6)


def test_overflow_is_charged_for_every_round() -> None:
    plan = hb.plan_from(hb.Schema.one_hot(100), 10_000, hb.Protocol(0.02, release="bits"), delta=1e-8)
    slots, rounds = min_slots(plan), 52
    bare, priced = (repeated_epsilon(plan, rounds, 1e-6, count) for count in (None, slots))
    assert bare < priced < 1.01 * bare
    price = rounds * overflow(plan, slots, epsilon=priced)
    assert hb.Ledger().charge_protocol(plan.protocol, plan.schema, plan.n, rounds=rounds).delta(priced) + price <= 1e-6
    assert repeated_epsilon(plan, rounds, 1e-6, 5) == float("inf")


def test_a_single_collection_costs_its_plan() -> None:
    terms = contract(plan_of())
    assert terms.spending(0).epsilon == 0
    assert terms.spending(1) == terms.total
    assert (terms.total.rounds, terms.total.epsilon) == (1, terms.plan.guarantee.epsilon)


# -- drafts --


def draft(plan: hb.Plan, **terms: Any) -> Contract:
    return draft_contract(plan, analyzer=ANALYZER.public, shuffler=SHUFFLER.public, **terms)


def test_a_draft_lasts_as_long_as_its_rounds_and_states_their_cost() -> None:
    plan = hb.plan_from(hb.Schema.one_hot(3), 1000, hb.Protocol(0.3), delta=1e-9)
    terms = draft(plan, epoch=3600, rounds=52, round_epochs=168)
    assert terms.task_end - terms.task_start == 52 * 168
    assert terms.total.delta == pytest.approx(52e-9)
    spent = terms.spending(52).epsilon
    assert spent <= terms.total.epsilon < 1.002 * spent
    load_contract(SignedContract.sign(terms, ANALYZER, SHUFFLER).to_json())
    assert draft(plan, rounds=52, total_epsilon=9.0, total_delta=1e-6).total.epsilon == 9.0
    with pytest.raises(Infeasible, match="must cost at most the total"):
        draft(plan, rounds=52, total_epsilon=spent / 2, total_delta=52e-9)


@pytest.mark.parametrize(
    "terms",
    [
        {"rounds": 5, "days": 3.0},
        {"round_epochs": 5},
        {"total_epsilon": 5.0},
        {"total_delta": 0.1},
        {"rounds": 0},
        {"rounds": MAX_SERIES + 1},
        {"rounds": 5, "round_epochs": 0},
        {"rounds": 5, "total_epsilon": -1.0},
        {"rounds": 5, "total_epsilon": float("nan")},
        {"rounds": 5, "total_delta": 1.0},
    ],
)
def test_drafts_with_invalid_rounds_are_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        draft(PLAN, **terms)


def test_one_bad_slot_does_not_withhold_a_batch_of_a_draft(tmp_path: Path) -> None:
    """With batches of exactly n clients, a single malicious client erased everybody's answers."""
    assert [closing_size(plan_of(n=n)) for n in (5, 100, 1000, 10_000)] == [100, 106, 1053, 10_527]
    plan = plan_of(n=100)
    terms = draft(plan)
    assert (terms.min_batch_size, terms.needed) == (106, 100)
    assert draft(plan, min_batch_size=100).min_batch_size == 100
    alone = clear_plan(16, 100)
    cases = (("reserve", plan, 106, "committed"), ("exact", plan, 100, "withheld"), ("alone", alone, 100, "committed"))
    for name, agreed, size, state in cases:
        (tmp_path / name).mkdir()
        system = System(tmp_path / name, plan=agreed, min_batch_size=size)
        system.fill(size - 1)
        (slot,) = system.client.slots([bytes([0])])
        system.upload(system.client.bundle([slot[:-1] + bytes([slot[-1] ^ 1])]))
        system.next_epoch()
        system.deliver()
        assert [result["state"] for result in system.results()] == [state]
        system.shut()


# -- a series in operation --


def test_the_same_people_answer_in_every_round(system: System) -> None:
    play(system, ROUNDS)
    results = system.results()
    assert [(result["round"], result["state"], result["people"]) for result in results] == [
        (number, "committed", MINIMUM) for number in (1, 2, 3)
    ]
    assert all(round(sum(result["table"]["value"])) == MINIMUM for result in results)
    assert [result["spent"]["rounds"] for result in results] == [1, 2, 3]
    assert [result["spent"]["epsilon"] for result in results] == pytest.approx([48.0, 96.0, 144.0])
    assert {(one["total"]["rounds"], one["total"]["epsilon"], one["total"]["delta"]) for one in results} == {
        (3, TOTAL.epsilon, 0)
    }
    assert [result["epoch"] for result in results] == [FIRST + 1, FIRST + 2, FIRST + 3]
    assert [batch["round"] for batch in system.analyzer.batches(system.contract.task)] == [1, 2, 3]


def test_an_account_has_one_ticket_per_round(system: System) -> None:
    answer(system)
    own = tickets(system, 1)
    assert own == tickets(system, 1)
    assert not {ticket[:16] for ticket in own} & {ticket[:16] for ticket in tickets(system, 2)}
    assert refusal(system, system.client.seal("1", own[0])) == "token-spent"
    system.next_epoch()
    assert refusal(system, system.client.seal("1", own[0])) == "bad-token"
    assert system.counts().open == 0
    answer(system)
    assert system.counts().open == MINIMUM


def test_a_bundle_counts_only_in_its_own_round(system: System) -> None:
    late = system.client.seal("3", tickets(system, 1, 9)[8])
    early = system.client_of(system.contract, 2).seal("3", tickets(system, 2, 9)[8])
    assert refusal(system, early) == "unavailable"
    bundles = answer(system)
    system.next_epoch()
    assert refusal(system, late) == "unavailable"
    system.clock.advance(system.contract.round_grace)
    assert refusal(system, late) == "closed-round"
    assert refusal(system, *bundles, late) == "closed-round"
    # A repeat of a stored bundle has the same response as ever.
    system.upload(*bundles)
    system.upload(early, *bundles)
    assert system.counts().open == 1


def test_slots_of_another_round_do_not_open(system: System) -> None:
    """A shuffler that moves reports to a batch of another round gives the analyzer nothing."""
    client = system.client
    moved = [Client(system.contract, client.keys, client.now, 2).slots([bytes([value])]) for value in range(2)]
    for number, slots in enumerate(moved):
        system.upload(client.bundle(slots, tickets(system, 1, 20)[10 + number]))
    answer(system)
    system.next_epoch()
    system.deliver()
    assert [result["rejected"] for result in system.results()] == [{"cannot_open": 2}]


def test_nobody_is_twice_in_a_batch(tmp_path: Path) -> None:
    """A bucket below the minimum stayed open, and took the answers of the next round from the same people."""
    system = series_system(tmp_path, round_epochs=2)
    answer(system, count=MINIMUM - 1)
    assert system.next_epoch() == []
    assert system.next_epoch() == []
    client = system.client_of(system.contract, 2)
    assert refusal(system, client.seal("1", tickets(system, 2)[0])) == "unavailable"
    # The last person of round 1 may still answer; then the bucket is released as a batch of round 1.
    old = system.client_of(system.contract, 1)
    system.upload(old.seal("5", tickets(system, 1)[5]))
    assert len(system.shuffler.tick()) == 1
    answer(system, 2)
    system.clock.advance(2 * EPOCH)
    system.shuffler.tick()
    system.shuffler.shuffle()
    system.deliver()
    assert [(result["round"], result["bundles"]) for result in system.results()] == [(1, MINIMUM), (2, MINIMUM)]


def test_too_few_people_expire_with_their_round(system: System) -> None:
    answer(system, count=MINIMUM - 1)
    system.next_epoch()
    assert system.counts().open == MINIMUM - 1
    system.clock.advance(system.contract.round_grace - 1)
    system.shuffler.tick()
    assert system.counts().expired == 0
    system.clock.advance(1)
    system.shuffler.tick()
    assert (system.counts().open, system.counts().expired) == (0, MINIMUM - 1)
    assert system.shuffler.rounds()[system.contract.id].spent.rounds == 0
    answer(system)
    system.next_epoch()
    system.deliver()
    (result,) = system.results()
    assert (result["round"], result["bucket"], result["spent"]["rounds"]) == (2, 2, 1)
    (gap,) = system.analyzer.gaps(system.contract.task)
    assert gap == {"first": 1, "last": 1, "bundles": MINIMUM - 1, "reason": "expired", "counted": 0}


@pytest.mark.parametrize("point", ROUND_POINTS)
def test_a_shuffler_that_is_killed_between_two_rounds(system: System, point: str) -> None:
    answer(system, count=MINIMUM - 1)
    system.next_epoch()
    system.clock.advance(ROUND_GRACE)
    with killed_at(system, point) as reached:
        system.shuffler.tick()
    assert reached[0]
    system.start()
    system.shuffler.fetch_keys(system.link)
    system.clock.advance(ROUND_GRACE)
    for _ in range(2):
        system.shuffler.tick()
        system.clock.advance(ROUND_GRACE)
    counts = system.counts()
    assert (counts.accepted, counts.open, counts.expired, counts.error) == (MINIMUM - 1, 0, MINIMUM - 1, 0)


def test_a_clock_that_jumps_and_returns_expires_nothing(tmp_path: Path) -> None:
    system = series_system(tmp_path, rounds=30, round_epochs=10)
    answer(system, count=MINIMUM - 1)
    for ahead in (15 * EPOCH, 100 * EPOCH):
        system.clock.jump(ahead)
        for _ in range(3):
            system.shuffler.tick()
        system.clock.jump(-ahead)
        system.shuffler.tick()
    system.clock.advance(EPOCH)
    system.shuffler.tick()
    assert (system.counts().open, system.counts().expired) == (MINIMUM - 1, 0)
    system.upload(system.client.seal("5", tickets(system, 1)[5]))
    assert len(system.next_epoch()) == 1


def test_a_clock_that_jumped_does_not_stall_the_round(tmp_path: Path) -> None:
    """Released too early, the round goes on in another batch; its people are others, so it is charged once."""
    system = series_system(tmp_path, rounds=30, round_epochs=10)
    answer(system)
    system.clock.jump(15 * EPOCH)
    assert len(system.shuffler.tick()) == 1
    system.clock.jump(-15 * EPOCH)
    system.shuffler.tick()
    client = system.client_of(system.contract, 1)
    more = tickets(system, 1, 2 * MINIMUM)[MINIMUM:]
    system.upload(*(client.seal("1", ticket) for ticket in more))
    assert refusal(system, client.seal("1", tickets(system, 1)[0])) == "token-spent"
    system.next_epoch()
    system.deliver()
    assert [(result["round"], result["spent"]["rounds"]) for result in system.results()] == [(1, 1), (1, 1)]
    assert system.shuffler.rounds()[system.contract.id].spent.rounds == 1


def test_after_the_last_round_nothing_is_accepted_or_released(system: System) -> None:
    play(system, ROUNDS)
    last = system.client_of(system.contract, 3)
    assert refusal(system, last.seal("1", tickets(system, 3, 9)[8])) == "unavailable"
    for _ in range(3):
        assert system.next_epoch() == []
    assert refusal(system, last.seal("1", tickets(system, 3, 9)[8])) == "series-ended"
    system.clock.jump(-10 * EPOCH)
    assert system.shuffler.tick() == []


@pytest.mark.parametrize("number", [0, 4])
def test_the_shuffler_releases_no_round_beyond_the_series(system: System, number: int) -> None:
    answer(system)
    row = system.shuffler.tasks.find(system.contract.task).row
    system.shuffler.store.jobs.run("UPDATE tasks SET round = ?", number)
    system.shuffler.tasks.refresh()
    system.clock.advance(EPOCH)
    with pytest.raises(Problem) as caught:
        system.shuffler.tick()
    assert caught.value.name == "series-ended"
    bucket = system.shuffler.store.bucket(row, 1)
    assert bucket is not None and bucket.state == "open"


def manifest_of(system: System, bucket: int, number: int) -> tuple[str, bytes]:
    """Return a manifest of the shuffler for a round."""
    found = Manifest(
        task=system.contract.task, bucket=bucket, epoch=FIRST, round=number, key_id=1, key_list="00" * 32,
        bundles=MINIMUM, slots=MINIMUM, chunks=("00" * 32,), sizes=(MINIMUM,),
    )  # fmt: skip
    return found.batch, found.sign(system.identities["shuffler"])


def test_the_analyzer_refuses_rounds_beyond_the_series(system: System) -> None:
    for number in (4, 10**6):
        with pytest.raises(Problem) as caught:
            system.analyzer.put_manifest(*manifest_of(system, 9, number))
        assert caught.value.name == "series-ended"
    assert system.analyzer.ledger.rounds(system.contract.task) == frozenset()
    assert system.analyzer.put_manifest(*manifest_of(system, 9, 3)) == [0]
    assert system.analyzer.ledger.rounds(system.contract.task) == {3}


def test_a_round_that_would_exceed_the_total_is_refused(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the contract allows the number of rounds, their composed cost decides."""
    assert system.analyzer.put_manifest(*manifest_of(system, 1, 1)) == [0]
    dear = lambda terms, rounds: dataclasses.replace(terms.total, rounds=rounds, epsilon=100.0 * rounds)  # noqa: E731
    monkeypatch.setattr(Contract, "spending", dear)
    with pytest.raises(Problem) as caught:
        system.analyzer.put_manifest(*manifest_of(system, 2, 2))
    assert caught.value.name == "series-ended"
    assert system.analyzer.ledger.rounds(system.contract.task) == {1}


def test_the_ledger_has_a_row_per_batch(system: System) -> None:
    play(system, 2)
    rows = [(1, 1, FIRST + 1, 1), (2, 2, FIRST + 2, 2)]
    query = "SELECT bucket, round, epoch, rounds FROM ledger ORDER BY bucket"
    for database in (system.shuffler.store.jobs, system.analyzer.store.writer):
        assert database.rows(query) == rows
        ((plan, epsilon, delta),) = database.rows("SELECT plan, epsilon, delta FROM ledger WHERE bucket = 2")
        assert (plan, round(epsilon), delta) == (PLAN.id, 96, 0.0)


def test_a_restored_shuffler_remembers_what_was_spent(system: System) -> None:
    backup = system.back_up()
    play(system, 2)
    system.restore(backup)
    assert system.shuffler._buckets.ledger.rounds(system.contract.task) == {1, 2}
    assert system.shuffler.rounds()[system.contract.id].spent.epsilon == pytest.approx(96.0)
    system.shuffler.tick()
    system.shuffler.fetch_keys(system.link)
    answer(system)
    system.next_epoch()
    system.deliver()
    assert [result["spent"]["rounds"] for result in system.results()] == [1, 2, 3]


def test_a_restored_analyzer_remembers_what_was_spent(system: System) -> None:
    backup = system.folder / "analyzer-backup.db"
    system.analyzer.store.backup(backup)
    play(system, 2)
    system.shut_analyzer()
    for suffix in ("", "-wal", "-shm"):
        (system.folder / f"analyzer.db{suffix}").unlink(missing_ok=True)
    shutil.copy(backup, system.folder / "analyzer.db")
    system.start_analyzer()
    assert system.analyzer.ledger.rounds(system.contract.task) == {1, 2}
    play(system, 1)
    (result,) = [one for one in system.results() if one["round"] == 3]
    assert result["spent"]["rounds"] == 3


def test_replicas_take_over_the_round(tmp_path: Path) -> None:
    """A process that only accepts uploads follows the round that another process has begun."""
    system = series_system(tmp_path)
    other = system.replica(worker=False)
    answer(system)
    system.next_epoch()
    client = system.client_of(system.contract, 2)
    system.upload(client.seal("1", tickets(system, 2)[0]), to=other)
    old = Client(system.contract, client.keys, client.now, 1).seal("1", tickets(system, 1, 9)[8])
    for name in ("unavailable", "closed-round"):
        with pytest.raises(Problem) as caught:
            system.upload(old, to=other)
        assert caught.value.name == name
        system.clock.advance(system.contract.round_grace)
    other.shut()


def test_a_bundle_that_was_opened_before_its_round_ended_is_refused_after_it(system: System) -> None:
    """The check is in the transaction: between opening and storing, another process may end the round."""
    answer(system)
    uploads = system.shuffler.uploads
    prepared = uploads.prepare(system.contract.task, system.client.seal("1", tickets(system, 1, 9)[8]))
    opened = uploads.open(prepared)
    system.next_epoch()
    with pytest.raises(Problem) as caught:
        uploads.accept(opened)
    assert caught.value.name == "unavailable"
    assert system.counts().open == 0


def test_the_fence_keeps_charged_rounds(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path, "analyzer")
    credentials.raise_fence(charged={"aa": [3, 1]})
    credentials.raise_fence(charged={"aa": [2], "bb": [7]}, last_key=4)
    found = Credentials(tmp_path, "analyzer").fence()
    assert (found.charged, found.last_key) == ({"aa": frozenset({1, 2, 3}), "bb": frozenset({7})}, 4)


def test_status_shows_round_and_spending(system: System) -> None:
    play(system, 2)
    for service in (system.shuffler, system.analyzer):
        status = service.rounds()[system.contract.id].to_document()
        assert status == {
            "round": "3 of 3",
            "spent_epsilon": pytest.approx(96.0),
            "total_epsilon": TOTAL.epsilon,
            "total_delta": 0.0,
        }


def test_a_series_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    """Another process that only accepts uploads follows the rounds; the ledger and expired rounds are the same."""
    system = series_system(tmp_path, rounds=4, url=postgres_url)
    other = system.replica(worker=False)
    play(system, 1)
    client = system.client_of(system.contract, 2)
    for value, ticket in enumerate(tickets(system, 2, MINIMUM - 1)):
        system.upload(client.seal(str(value), ticket), to=other)
    system.next_epoch()
    system.next_epoch()
    assert system.counts().expired == MINIMUM - 1
    play(system, 1)
    assert [(result["round"], result["spent"]["rounds"]) for result in system.results()] == [(1, 1), (4, 2)]
    other.shut()
    system.shut()


def test_every_round_has_a_context_of_its_own() -> None:
    series = Series(3, 7, hb.Budget(1.0, 1e-6))
    assert series.epochs == 21
    found = round_contexts(bytes(16), 3)
    assert sorted(found.values()) == [1, 2, 3]
    assert [found[round_context(bytes(16), number)] for number in (1, 2, 3)] == [1, 2, 3]


def test_rounds_follow_each_other_and_end_after_their_grace(tmp_path: Path) -> None:
    system = series_system(tmp_path, round_epochs=2)
    terms = system.contract
    spans = [terms.round_span(number) for number in range(1, ROUNDS + 1)]
    assert (spans[0][0], spans[-1][1]) == (terms.task_start * EPOCH, terms.task_end * EPOCH)
    assert [begin for begin, _ in spans[1:]] == [end for _, end in spans[:-1]]
    for number, (_, end) in enumerate(spans, 1):
        over = end + EPOCH + ROUND_GRACE
        assert [terms.over_at(time, number) for time in (over - 1, over)] == [False, True]
    system.shut()


def test_the_reserve_is_what_the_certificate_does_not_need(tmp_path: Path) -> None:
    system = series_system(tmp_path)
    terms = system.contract
    assert terms.needed == PLAN.guarantee.assumptions.honest < PLAN.n
    assert terms.reserve == MINIMUM - terms.needed
    system.shut()
