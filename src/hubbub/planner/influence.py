"""The votes of one device: how many people a malicious client can count for, at most.

An honest device counts for one person on its label in the mean, and for nobody on another. One that follows nothing
but the format may put all its messages on one label. What receives uploads limits their number: the services to the
slots of a bundle.
"""

import math

from hubbub.accountant.overflow import max_messages
from hubbub.errors import InvalidInput, check_type
from hubbub.mechanisms.design import places
from hubbub.mechanisms.noise import known_total
from hubbub.model.plans import Plan
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema
from hubbub.planner.costs import cost


def votes(protocol: Protocol, schema: Schema, sent: float, fakes: float = 0.0) -> float:
    """Return by how much one client that sends this many messages with a label moves its estimate, in people.

    (s − kq − F·v)/(k(1 − 2q)), where the estimator takes F messages of the client for fakes, which show the label with
    probability v = q + (1 − 2q)·density; (s − q)/(1 − dq) for one category of d. With the k messages of an honest
    client, (1 − q)/(1 − 2q) for any number of copies; with M single bits, (M − q)/(1 − 2q). Where the counts add up to
    the number of people, that of :func:`answer_votes`.

    >>> one = Schema.bits(100)
    >>> votes(Protocol(0.25), one, 1), votes(Protocol(0.25, k=4), one, 4), round(votes(Protocol(0.02), one, 0), 3)
    (1.5, 1.5, -0.021)
    >>> one = Schema.one_hot(100)
    >>> round(votes(Protocol(0.02, release="bits"), one, 20), 2), votes(Protocol(1 / 128, release="category"), one, 1)
    (20.64, 4.535714285714286)
    """
    q, k = protocol.q, protocol.k
    if protocol.sends_category:
        return (sent - q) / (1 - schema.width * q)
    if known_total(schema, protocol):
        return answer_votes(schema.width, q, sent / k, category=False)
    shows = q + (1 - 2 * q) * schema.density
    return (sent - k * q - fakes * shows) / (k * (1 - 2 * q))


def answer_votes(size: int, q: float, sent: float, *, category: bool) -> float:
    """Return the same for one category of an attribute of a survey, whose counts add up to the number of people.

    s(1 − 1/d)/g + 1/d, where g is 1 among fakes, 1 − 2q for flipped bits and 1 − dq for randomized response.

    >>> answer_votes(4, 0.0, 1, category=False), answer_votes(4, 0.0, 5, category=False)
    (1.0, 4.0)
    """
    return sent * (1 - 1 / size) / (1 - (size if category else 2) * q) + 1 / size


def client_messages(plan: Plan) -> float:
    """Return the number of messages to which a client is limited: by the services, or by the format; ∞ if by neither.

    >>> from hubbub import Protocol, Schema, plan_from
    >>> client_messages(plan_from(Schema.bits(8), 1000, Protocol(0.1, k=2), delta=1e-6))
    2
    """
    sent = cost(plan).messages
    if sent is not None:
        return sent
    try:
        most = max_messages(plan)
    except InvalidInput:  # users share the fakes, some of them one more than others
        most = plan.protocol.k + math.ceil(plan.protocol.fixed_fakes / plan.n)
    return math.inf if most is None else most


def client_weight(plan: Plan, slots: int | None = None) -> float:
    """Return the largest number of people that one device can count for on one label, or one answer of a survey.

    ``slots`` are the messages of a bundle, by default as few as the services need.

    >>> from hubbub import Fakes, Protocol, Schema, plan_from
    >>> one = Schema.one_hot(100)
    >>> round(client_weight(plan_from(one, 10_000, Protocol(0.02, release="bits"), delta=1e-6)), 2)
    21.67
    >>> client_weight(plan_from(one, 10_000, Protocol(0.0, m=Fakes.laplace(2.0, 25)), delta=1e-6))
    1.0
    """
    protocol, schema = check_type("plan", plan, Plan).protocol, plan.schema
    if protocol.sends_strings:
        return 1.0
    if schema.named:
        return max(question_weights(plan, slots).values())
    most = client_messages(plan) if slots is None else slots
    if protocol.sends_records and protocol.user_fakes:
        fakes = most - protocol.k  # the estimator knows how many messages there are
    else:
        fakes = protocol.user_fakes.mean if protocol.user_fakes else protocol.fixed_fakes / plan.n
    return votes(protocol, schema, most, fakes) if math.isfinite(most) else math.inf


def question_weights(plan: Plan, slots: int | None = None) -> dict[str, float]:
    """Return the weight of one device on one answer of each question of a survey: all its messages may name it.

    >>> from hubbub import Choice, Fakes, Flag, Noise, Protocol, Schema, plan_from
    >>> asked = Schema.survey({"colour": Choice(["red", "blue", "green", "grey"]), "dark": Flag()})
    >>> question_weights(plan_from(asked, 1000, Protocol.survey([Noise(m=Fakes.laplace(4.0, 54))] * 2), delta=1e-6))
    {'colour': 1.75, 'dark': 1.5}
    """
    questions, where = plan.schema.questions, places(plan.schema)
    most, protocol = client_messages(plan) if slots is None else slots, plan.protocol
    each = [
        answer_votes(attribute.size, noise.q, most, category=protocol.sends_category)
        for attribute, noise in zip(plan.schema.attributes, protocol.noise, strict=True)
    ]
    # A question is also counted in the cross-tables that it is part of.
    tables = {name: (name, *questions.crosses(name)) for name in questions.names}
    return {
        name: max((each[place] for table in tables[name] for place in where[table]), default=max(each))
        for name in questions.names
    }
