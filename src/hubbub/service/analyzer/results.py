"""The result of a batch: an estimate with its achieved guarantee, or the reason why it is withheld.

**Charging bad slots.** No honest client sends a slot that is rejected, and a bundle has exactly M slots. Let b slots of
a batch of B bundles be bad. They come from at least ⌈b/M⌉ and at most b malicious clients. Three numbers follow.

- *People*, N = B − ⌈b/M⌉: the largest number of clients that can have sent what was counted, and the N of the
  estimator. Charging b clients instead would let a malicious client cost the batch M people; ⌈b/M⌉ charges it for no
  more than itself. If b bad slots come from more clients, N is too large by fewer than b; that is part of the bounded
  harm of malicious clients, who may as well send any legal messages and shift each count by M.
- *Needed*, h: the number of honest clients that the certificate of the plan counts on, as its assumptions say: ⌊f·n⌋
  with f the plan's ``honest_fraction`` where people hide each other, 1 where the shuffler's fakes do. If N < h the bad
  slots refute the assumption, and the batch is withheld. If N ≥ h they do not: a certificate for h honest clients holds
  whatever the others send, so bad slots as such cost nobody any privacy. Asking for more than h would let whoever sends
  bad slots erase the answers of everybody else.
- *Certified*, max(n, B − b): the size at which the guarantee of the result is computed. B − b clients are without a
  fault even if every bad slot comes from another client. If that is less than n, the result states the plan's own
  guarantee and nothing better: it rests on at most h honest clients, as its assumptions say, and that is what admission
  and ``honest_fraction`` have to ensure.

An attacker gains nothing by spreading bad slots over many clients. It would weaken the guarantee just as much if all of
these sent legal messages, which nothing can tell from honest ones; that is why the guarantee never rests on clients
that merely look honest, but on the stated number of honest ones.
"""

from dataclasses import replace

from hubbub.documents import Json
from hubbub.errors import InvalidInput
from hubbub.model.plans import Plan
from hubbub.pipeline.reports import Tally
from hubbub.pipeline.tally import counted_strings
from hubbub.results.estimate import achieved_guarantee, estimate
from hubbub.results.result import FORMAT
from hubbub.service.analyzer.shown import ShownStrings
from hubbub.service.analyzer.slots import messages_per_client
from hubbub.service.analyzer.store import BatchRow
from hubbub.service.analyzer.tallies import BatchTally
from hubbub.service.task.contract import Contract, Spending
from hubbub.service.task.manifest import Gap


def batch_result(
    batch: BatchRow, contract: Contract, total: BatchTally, spent: Spending, gaps: tuple[Gap, ...] = ()
) -> tuple[str, dict[str, Json]]:
    """Return the state of a batch, ``committed`` or ``withheld``, and its result as a JSON object.

    ``spent`` is what the rounds so far, including this one, cost a person who answered in each of them.
    """
    plan, bad = contract.plan, total.bad
    charged = -(-bad // contract.slots)
    people = batch.bundles - charged
    about = _about(batch, contract, spent, gaps) | {
        "rejected": dict(sorted(total.rejected.items())),
        "charged": charged,
    }
    if people < contract.needed:
        reason = (
            f"fewer than {contract.needed:,} clients remain after charging the rejected slots to as few clients as can "
            f"have sent them, {contract.slots:,} each"
        )
        return "withheld", {**about, "state": "withheld", "reason": reason}
    try:
        statement = _statement(_tally(plan, total, people), contract, max(plan.n, batch.bundles - bad))
        return "committed", {**statement, **about, "state": "committed", "messages": total.messages}
    except InvalidInput:
        reason = "the messages are not a possible outcome of the protocol"
        return "withheld", {**about, "state": "withheld", "reason": reason}


def strings_result(
    batch: BatchRow, contract: Contract, shown: ShownStrings, spent: Spending, gaps: tuple[Gap, ...] = ()
) -> tuple[str, dict[str, Json]]:
    """Return the state and the result of a batch of strings.

    A slot that is not the only one of its string costs nobody anything: the certificate holds whatever others send, and
    the row that carries it is a function of the release.
    """
    plan = contract.plan
    rejected: dict[str, Json] = {"rejected": dict(sorted(shown.rejected.items())), "charged": 0}
    about = _about(batch, contract, spent, gaps) | rejected
    try:
        found = estimate(counted_strings(plan.id, batch.bundles, dict(shown.rows)), plan)
    except InvalidInput:
        reason = "the numbers of people are not a possible outcome of the protocol"
        return "withheld", {**about, "state": "withheld", "reason": reason}
    return "committed", {**found.to_document(), **about, "state": "committed", "messages": len(shown.rows)}


def _about(batch: BatchRow, contract: Contract, spent: Spending, gaps: tuple[Gap, ...]) -> dict[str, Json]:
    """Return what every result says about its batch."""
    return {
        "format": FORMAT,
        "batch": batch.id,
        "task": batch.task.hex(),
        "plan": contract.plan.id,
        **position(batch, contract),
        "spent": spent.to_document(),
        "total": contract.total.to_document(),
        "gaps": [gap.to_document() for gap in gaps],
        "bundles": batch.bundles,
    }


def position(batch: BatchRow, contract: Contract) -> dict[str, Json]:
    """Return the place of a batch in its task: when its round begins and ends, and when it was released.

    Times are seconds since 1970. ``released`` is the beginning of the epoch in which the bucket was sealed, in which
    its round may be over; bundles may have arrived in any epoch of the round up to then.
    """
    start, end = contract.round_span(batch.round)
    times: dict[str, Json] = {"start": start, "end": end, "released": batch.epoch * contract.epoch}
    return {"bucket": batch.bucket, "round": batch.round, "epoch": batch.epoch, **times}


def _tally(plan: Plan, total: BatchTally, people: int) -> Tally:
    per_client = messages_per_client(plan)
    if per_client is not None and not plan.protocol.has_shuffler_fakes:
        total.drop_last(total.messages - per_client * people)
    total.counts.setflags(write=False)
    return Tally(
        plan=plan.id,
        n=people,
        fakes=declared_fakes(plan, people),
        messages=total.messages,
        batches=1,
        smallest_batch=people,
        counts=total.counts,
    )


def declared_fakes(plan: Plan, people: int) -> int:
    """Return the fakes that a number of people add, if the plan fixes their total."""
    return plan.protocol.fixed_fakes // plan.n * people


def _statement(counts: Tally, contract: Contract, certified: int) -> dict[str, Json]:
    """Return the estimate of a batch, and the guarantee under which it was collected."""
    plan = contract.plan
    fakes = declared_fakes(plan, certified)
    messages = plan.protocol.own_messages * certified + fakes
    achieved = achieved_guarantee(
        replace(counts, n=certified, smallest_batch=certified, fakes=fakes, fewest_fakes=fakes, messages=messages), plan
    )
    # Clients whose messages exceed their slots leave some out, at the price of this batch's certificate.
    return replace(estimate(counts, plan), achieved=contract.with_overflow(achieved)).to_document()
