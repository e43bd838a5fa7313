"""Contracts in words: what ``inspect`` prints and ``report`` shows of them."""

import datetime

from hubbub.documents import spell
from hubbub.planner import client_weight
from hubbub.report.plan_report import Agreement
from hubbub.report.words import described_weight
from hubbub.service.task.contract import SignedContract, verify_series


def agreement_of(signed: SignedContract) -> Agreement:
    """Return what a reader needs of a contract; raise if a signature is not valid or the rounds exceed their total."""
    contract, roles = signed.contract, signed.verified_roles()
    verify_series(contract)
    kind = contract.admission.kind
    return Agreement(
        id=contract.id,
        min_batch_size=contract.min_batch_size,
        epoch=contract.epoch,
        start=_date(contract.task_start * contract.epoch),
        end=_date(contract.task_end * contract.epoch),
        admission="open to everyone" if kind == "open" else f"by {kind}, issued by {contract.admission.issuer}",
        operators={"shuffler": contract.shuffler.hex(), "analyzer": contract.analyzer.hex()},
        signed=roles,
        export=contract.export,
    )


def described_contract(signed: SignedContract) -> list[tuple[str, str]]:
    """Describe a contract as names and values, without its plan."""
    held, total = agreement_of(signed), signed.contract.total
    rows = [
        ("contract", held.id),
        ("task", signed.contract.task.hex()),
        ("period", f"{held.start} to {held.end}, in epochs of {held.epoch:,} seconds"),
        (
            "batches",
            f"at least {held.min_batch_size:,} people, of whom the guarantee needs {signed.contract.needed:,}; "
            f"{signed.contract.slots:,} slots per bundle",
        ),
        ("one device", described_weight(signed.contract.plan, signed.contract.slots)),
        ("admission", held.admission),
    ]
    if signed.contract.series is not None:
        rows.append(("rounds", f"{total.rounds:,}, all together ({total.epsilon:.4g}, {total.delta:.3g})"))
    if signed.contract.export:
        rows.append(("export", "the analyzer keeps the shuffled messages of every counted batch in a folder"))
    for role, public in held.operators.items():
        rows.append((role, f"{public}, {'signature verified' if role in held.signed else 'not signed'}"))
    return rows


def contract_record(signed: SignedContract) -> dict[str, object]:
    """Return the figures of a contract as a JSON object, without its plan."""
    held, total = agreement_of(signed), signed.contract.total
    return {
        "id": held.id,
        "task": signed.contract.task.hex(),
        "plan": signed.contract.plan.id,
        "min_batch_size": held.min_batch_size,
        "needed": signed.contract.needed,
        "slots": signed.contract.slots,
        "client_weight": spell(client_weight(signed.contract.plan, signed.contract.slots)),
        "epoch": held.epoch,
        "start": held.start,
        "end": held.end,
        "admission": signed.contract.admission.kind,
        "total": total.to_document(),
        "export": signed.contract.export,
        "operators": dict(held.operators),
        "signed": list(held.signed),
    }


def _date(seconds: int) -> str:
    moment = datetime.datetime.fromtimestamp(min(seconds, LAST), datetime.UTC)
    return f"{moment:%Y-%m-%d %H:%M} UTC"


LAST = 253_402_300_799
"""The last second of the year 9999."""
