"""Planned costs equal the sealed bundles that clients send, for every schema and protocol that is offered."""

import math
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.service.samples import claimed, contract, pair
from tests.service.system import System
from tests.service.test_uploader import Wire, uploader

import hubbub as hb
from hubbub.accountant.overflow import check_slots
from hubbub.bits.entropy import SeededStreamNotForPeople
from hubbub.errors import Infeasible, InvalidInput
from hubbub.model.releases import Release
from hubbub.pipeline import device
from hubbub.planner import FAMILIES, Search, cost, plan_from
from hubbub.planner.request import Request
from hubbub.service.task import sealing
from hubbub.service.task.contract import Contract
from hubbub.service.transport import Response
from hubbub.wire.bundles import MAX_BUNDLE_SIZE

N = 100
RELEASES: tuple[Release, ...] = ("records", "bits", "category")

schemas = st.one_of(
    st.integers(2, 600).map(hb.Schema.one_hot),
    st.integers(1, 40).map(hb.Schema.bits),
    st.integers(1, 30).flatmap(lambda width: st.integers(1, width).map(lambda k: hb.Schema.at_most(k, width))),
)
fakes = st.one_of(
    st.integers(1, 3).map(lambda each: each * N),
    st.builds(hb.Fakes.binomial, st.integers(1, 4), st.floats(0.01, 1.0)),
    st.builds(hb.Fakes.poisson, st.floats(0.01, 2.0)),
    st.builds(hb.Fakes.laplace, st.floats(0.5, 4.0), st.integers(0, 30)),
    st.builds(hb.Fakes.gaussian, st.floats(0.5, 4.0), st.integers(0, 30)),
)
flips = st.floats(0.001, 0.45)


@st.composite
def plans(draw: st.DrawFn) -> hb.Plan:
    """A plan of any family, with a claimed guarantee."""
    schema, q = draw(schemas), draw(flips)
    release: Release = draw(st.sampled_from(RELEASES))
    if release == "category":
        assume(schema.exclusive)
        protocol = hb.Protocol(0.9 * q / schema.width, release="category")
    else:
        m = draw(st.one_of(st.just(0), fakes))
        drawn_by_shuffler = isinstance(m, hb.Fakes) and m.by == "shuffler"
        clear = m != 0 and draw(st.booleans())
        k = 1 if clear or drawn_by_shuffler else draw(st.integers(1, 3))
        protocol = hb.Protocol(0.0 if clear else q, k, m, release)
    return claimed(schema, protocol, n=N, epsilon=draw(st.floats(0.0, 3.0)), delta=draw(st.floats(1e-12, 0.1)))


def upload(agreed: Contract) -> bytes:
    """The sealed bundle of one client."""
    schema, layout = agreed.plan.schema, agreed.layout
    value = schema.labels[0] if schema.exclusive else schema.labels[: schema.max_set]
    messages = device.payloads(value, agreed.plan, entropy=SeededStreamNotForPeople(1))[: agreed.slots]
    filled: list[bytes | None] = [*messages, *[None] * (agreed.slots - len(messages))]
    slots = [sealing.seal_slot(one, layout, 1, pair(agreed.suite, "analyzer").public) for one in filled]
    return sealing.seal_bundle(slots, layout, 1, pair(agreed.suite, "shuffler").public, bytes(layout.admission))


@settings(max_examples=60, deadline=None)
@given(plans(), st.sampled_from((1, 1, 1, 2)))
def test_planned_bytes_are_sent_bytes(plan: hb.Plan, suite: int) -> None:
    sent = cost(plan, suite=suite)
    assert sent.payload_messages == plan.payload_messages
    assert sent.payload_bytes == pytest.approx(plan.payload_messages * plan.payload)
    if sent.bytes is None or sent.messages is None:
        assert sent.not_offered
        with pytest.raises((Infeasible, InvalidInput)):
            contract(plan, slots=max(1, math.ceil(plan.payload_messages)), suite=suite)
        return
    assume(sent.messages <= 200)
    agreed = contract(plan, slots=sent.messages, suite=suite)
    body = upload(agreed)
    assert len(body) == sent.bytes == agreed.bundle_size
    slots = sealing.open_bundle(body, agreed.layout, pair(suite, "shuffler").private).slots
    assert len(slots) == sent.messages
    # One slot fewer is refused, so that the planned number is the smallest one.
    with pytest.raises(InvalidInput):
        check_slots(plan, sent.messages - 1)


class _Recording(Wire):
    """A transport that records the sizes of uploads."""

    def __init__(self, system: System) -> None:
        super().__init__(system)
        self.sizes: list[int] = []

    def post(self, task: str, body: bytes) -> Response:
        self.sizes.append(len(body))
        return super().post(task, body)


@pytest.mark.parametrize("release", ["records", "bits"])
def test_uploads_of_the_uploader_have_the_planned_size(release: Literal["records", "bits"], tmp_path: Path) -> None:
    plan = plan_from(hb.Schema.one_hot(8), 100, hb.Protocol(0.1, release=release), delta=1e-6)
    system = System(tmp_path, plan=plan)
    wire = _Recording(system)
    one = uploader(system, wire, tmp_path / "journal", per_request=7)
    one.prepare([1 << i % 8 for i in range(21)])
    assert one.send().stored == 21
    assert wire.sizes == [7 * (cost(plan).bytes or 0)] * 3


def test_figures_of_the_documentation() -> None:
    """One slot with one byte, and the split bits whose bare payload is 20 times smaller than the upload."""
    one = cost(plan_from(hb.Schema.bits(8), 1000, hb.Protocol(0.1), delta=1e-6))
    assert (one.messages, one.bytes, one.payload_messages, one.payload_bytes) == (1, 157, 1, 1)
    split = cost(plan_from(hb.Schema.one_hot(100), 10_000, hb.Protocol(0.02, release="bits"), delta=1e-6))
    assert (split.messages, split.bytes) == (21, 1217)
    assert str(split) == "21 messages per user, sealed in 1,217 bytes"
    assert split.cells == ("21", "1,217")


def test_plans_that_the_services_refuse_have_no_sealed_cost() -> None:
    varying = claimed(hb.Schema.bits(8), hb.Protocol(0.0, m=hb.Fakes.laplace(4.0, 60), release="bits"))
    uneven = claimed(hb.Schema.one_hot(3), hb.Protocol(0.0, m=250))
    large = claimed(hb.Schema.bits(10**6), hb.Protocol(0.1, k=100))
    pure = claimed(hb.Schema.one_hot(3), hb.Protocol(0.1, m=hb.Fakes.poisson(1.0)), delta=0.0)
    for plan, reason in (
        (varying, "filler"),
        (uneven, "multiple of n"),
        (large, f"{MAX_BUNDLE_SIZE:,}"),
        (pure, "pure"),
    ):
        found = cost(plan)
        assert found.messages is None
        assert found.bytes is None
        assert reason in found.not_offered
        assert found.cells == ("–", "not offered")
        assert "do not offer" in str(found)


@pytest.mark.long
def test_limits_apply_to_the_sealed_bundle() -> None:
    schema, budget = hb.Schema.one_hot(100), hb.Budget(1.0, 1e-6)
    everything = Search.of(Request.of(schema, 10**5, budget, trust="shuffler-noise")).plans
    sizes = {key: cost(plan) for key, plan in everything.items()}
    assert sizes["split"].bytes == 581
    assert sizes["split"].payload_messages < 1.1
    for limit in (157, 210, 580, 581):
        found = Search.of(Request.of(schema, 10**5, budget, max_bytes=limit, trust="shuffler-noise"))
        wanted = {key for key, sent in sizes.items() if sent.bytes is not None and sent.bytes <= limit}
        assert wanted <= set(found.plans)
        assert all((cost(plan).bytes or math.inf) <= limit for plan in found.plans.values())
    few = Search.of(Request.of(schema, 10**5, budget, max_messages=8))
    assert "raise max_messages" in few.failures["split"]
    assert all((cost(plan).messages or math.inf) <= 8 for plan in few.plans.values())


def test_a_limit_excludes_what_has_no_sealed_size() -> None:
    schema, budget = hb.Schema.bits(8), hb.Budget(1.0, 1e-6)

    def best(**limits: float) -> hb.Plan:
        request = Request(schema=schema, n=10**4, budget=budget, **limits)  # type: ignore[arg-type]
        candidate = FAMILIES["clear-shuffler-fakes"].propose(request)
        assert candidate is not None
        return candidate.best(request)

    assert cost(best()).bytes is None
    with pytest.raises(Infeasible, match="do not offer"):
        best(max_messages=1000)


@pytest.mark.parametrize("bad", [{"plan": 5}, {"suite": 3}])
def test_bad_input(bad: dict[str, object]) -> None:
    good: dict[str, object] = {"plan": claimed(hb.Schema.bits(1), hb.Protocol(0.1)), "suite": 1}
    with pytest.raises(InvalidInput, match=next(iter(bad))):
        cost(**(good | bad))  # type: ignore[arg-type]
