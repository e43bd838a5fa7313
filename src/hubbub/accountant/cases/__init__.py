"""The theorem that certifies each mechanism: Protocol × Schema × honest users → an analysis.

- a category by randomized response: the uniform blanket; for two categories, single bits (:mod:`.category`);
- flipped single bits: branch and bound over all collections; split bits compose its curve (:mod:`.positions`);
- flipped whole records: slot exchange and privacy blankets, and group privacy over copies (:mod:`.records`);
- clear records among users' fakes: the exact distribution of the fakes (:mod:`.clear`);
- the shuffler's fakes: the exact distribution, or a composition over counts, also with flips (:mod:`.shuffler`);
- flipped whole records among the shuffler's fakes: the product of both bounds (:mod:`.product`);
- strings that nobody listed: the exact distribution of what the shuffler subtracts (:mod:`.strings`);
- surveys of several attributes: a composition over their distributions or certified curves (:mod:`.surveys`);
- one user's messages alone, which bound every protocol that flips (:mod:`.local`).

A further mechanism is one more entry of :data:`CASES`, a further theorem one more option of an entry.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from hubbub.accountant.analysis import Analysis, best
from hubbub.accountant.cases.category import category_analysis
from hubbub.accountant.cases.clear import clear_analysis
from hubbub.accountant.cases.flips import flip_analysis, user_fakes_analysis
from hubbub.accountant.cases.local import local_analysis
from hubbub.accountant.cases.product import product_analysis
from hubbub.accountant.cases.shuffler import combined_analysis, shuffler_fakes_analysis
from hubbub.accountant.cases.strings import strings_analysis
from hubbub.accountant.cases.surveys import survey_analysis
from hubbub.mechanisms.flip import Flip
from hubbub.mechanisms.mechanism import Mechanism, mechanisms
from hubbub.mechanisms.response import Response
from hubbub.mechanisms.threshold import Threshold
from hubbub.model.plans import check_protocol
from hubbub.model.privacy import Basis, TrustModel
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema


@dataclass(frozen=True, slots=True)
class Setting:
    """Everything that an analysis depends on: who takes part, who of them is honest, and who is trusted."""

    protocol: Protocol
    schema: Schema
    n: int
    honest: int
    trust: TrustModel
    preliminary: bool


def analyze(
    protocol: Protocol,
    schema: Schema,
    n: int,
    honest: int,
    trust: TrustModel = "shuffler-noise",
    *,
    preliminary: bool = False,
) -> Analysis:
    """Return the analysis of a collection of n, ``honest`` of whom follow the protocol, under the stated trust.

    A ``preliminary`` one of split bits errs upwards by a little more, and costs a third; others ignore it.

    >>> analyze(Protocol(0.1), Schema.bits(1), 1000, 1000).options[0].basis
    <Basis.EXACT: 'exact'>
    """
    check_protocol(protocol, schema)
    first, *others = mechanisms(protocol, schema)
    if others:
        return survey_analysis(protocol, schema, honest, trust, preliminary=preliminary)
    if schema.named:
        schema = Schema.one_hot(schema.width)
    return CASES[type(first)](Setting(protocol, schema, n, honest, trust, preliminary))


def _threshold(of: Setting) -> Analysis:
    """Return the analysis of strings that the shuffler counts."""
    return strings_analysis(of.protocol, of.n) if of.trust == "shuffler-noise" else _local(of)


def _response(of: Setting) -> Analysis:
    """Return the analysis of a category by randomized response."""
    if of.trust == "nobody":
        return _local(of)
    return best(category_analysis(of.protocol.q, of.schema, of.honest), replace(_local(of), basis=Basis.PROVEN))


def _flip(of: Setting) -> Analysis:
    """Return the analysis of flipped or clear records, alone or among fakes."""
    protocol, schema, honest, drawn = of.protocol, of.schema, of.honest, of.protocol.shuffler_fakes
    if of.trust == "nobody":
        return _local(of)
    if protocol.clear:
        if drawn is None:
            return clear_analysis(protocol, schema, honest, honest_fakes(protocol, of.n, honest))
        return _local(of) if of.trust == "shuffling" else shuffler_fakes_analysis(protocol, schema, drawn)
    flips = (
        user_fakes_analysis(protocol, schema, honest, protocol.user_fakes)
        if protocol.user_fakes
        else flip_analysis(protocol, schema, honest, honest_fakes(protocol, of.n, honest), preliminary=of.preliminary)
    )
    local = replace(_local(of), basis=Basis.PROVEN)  # exact for one user's messages, a bound for shuffled ones
    if drawn is None or of.trust == "shuffling":
        return best(flips, local)
    fakes = shuffler_fakes_analysis(protocol, schema, drawn)
    both = combined_analysis(protocol, schema, drawn, honest)
    if both is not None:
        return best(both, flips, fakes, local, attack=both.honest == honest)
    options = [fakes, local]
    if protocol.sends_records:
        options.append(product_analysis(flips, fakes))
    return best(flips, *options, attack=False)  # an attack on the flips alone breaks what the fakes add


def _local(of: Setting) -> Analysis:
    return local_analysis(of.protocol, of.schema)


CASES: dict[type[Mechanism], Callable[[Setting], Analysis]] = {Flip: _flip, Response: _response, Threshold: _threshold}
"""The analysis of a single column, by its mechanism; several columns are composed by :mod:`.surveys`."""


def honest_fakes(protocol: Protocol, n: int, honest: int) -> int:
    """Return how many of a fixed number m of fakes honest users surely send: all if all are honest, else ⌊m/n⌋ each.

    >>> honest_fakes(Protocol(0.1, m=300), 3, 1), honest_fakes(Protocol(0.1, m=301), 3, 3)
    (100, 301)
    """
    fixed = protocol.fixed_fakes
    return fixed if honest >= n else honest * (fixed // n)
