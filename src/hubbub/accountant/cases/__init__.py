"""The theorem that certifies each kind of protocol: Protocol × Schema × honest users → an analysis.

- a category by randomized response: the uniform blanket; for two categories, single bits (:mod:`.category`);
- flipped single bits: branch and bound over all collections; split bits compose its curve (:mod:`.positions`);
- flipped whole records: slot exchange and privacy blankets, and group privacy over copies (:mod:`.records`);
- clear records among users' fakes: the exact distribution of the fakes (:mod:`.clear`);
- the shuffler's fakes: the exact distribution, or a composition over counts, also with flips (:mod:`.shuffler`);
- flipped whole records among the shuffler's fakes: the product of both bounds (:mod:`.product`);
- strings that nobody listed: the exact distribution of what the shuffler subtracts (:mod:`.strings`);
- surveys of several attributes: a composition over their distributions or certified curves (:mod:`.surveys`);
- one user's messages alone, which bound every protocol that flips (:mod:`.local`).

A further theorem is one more option here.
"""

from dataclasses import replace

from hubbub.accountant.analysis import Analysis, best
from hubbub.accountant.cases.category import category_analysis
from hubbub.accountant.cases.clear import clear_analysis
from hubbub.accountant.cases.flips import flip_analysis, user_fakes_analysis
from hubbub.accountant.cases.local import local_analysis
from hubbub.accountant.cases.product import product_analysis
from hubbub.accountant.cases.shuffler import combined_analysis, shuffler_fakes_analysis
from hubbub.accountant.cases.strings import strings_analysis
from hubbub.accountant.cases.surveys import survey_analysis
from hubbub.model.plans import check_protocol
from hubbub.model.privacy import Basis, TrustModel
from hubbub.model.protocol import Protocol
from hubbub.model.schema import Schema


def analyze(
    protocol: Protocol,
    schema: Schema,
    n: int,
    honest: int,
    trust: TrustModel = "shuffler-noise",
    *,
    coarse: bool = False,
) -> Analysis:
    """Return the analysis of a collection of n, ``honest`` of whom follow the protocol, under the stated trust.

    A ``coarse`` one of split bits errs upwards by a little more, and costs a third; others ignore it.

    >>> analyze(Protocol(0.1), Schema.bits(1), 1000, 1000).options[0].basis
    <Basis.EXACT: 'exact'>
    """
    check_protocol(protocol, schema)
    if protocol.sends_strings:
        return strings_analysis(protocol, n) if trust == "shuffler-noise" else local_analysis(protocol, schema)
    if schema.named:
        if len(schema.attributes) > 1:
            return survey_analysis(protocol, schema, honest, trust, coarse=coarse)
        schema = Schema.one_hot(schema.width)
    return _single(protocol, schema, n, honest, trust, coarse=coarse)


def _single(protocol: Protocol, schema: Schema, n: int, honest: int, trust: TrustModel, *, coarse: bool) -> Analysis:
    """Return the analysis of records whose bits all have the same noise."""
    local = local_analysis(protocol, schema)
    if trust == "nobody":
        return local
    if protocol.clear:
        if protocol.shuffler_fakes is None:
            return clear_analysis(protocol, schema, honest, honest_fakes(protocol, n, honest))
        return local if trust == "shuffling" else shuffler_fakes_analysis(protocol, schema, protocol.shuffler_fakes)
    flips = _flips(protocol, schema, n, honest, coarse=coarse)
    local = replace(local, basis=Basis.PROVEN)  # exact for one user's messages, a bound for shuffled ones
    if protocol.shuffler_fakes is None or trust == "shuffling":
        return best(flips, local)
    drawn = shuffler_fakes_analysis(protocol, schema, protocol.shuffler_fakes)
    both = combined_analysis(protocol, schema, protocol.shuffler_fakes, honest)
    if both is not None:
        return best(both, flips, drawn, local, attack=both.honest == honest)
    options = [drawn, local]
    if protocol.sends_records:
        options.append(product_analysis(flips, drawn))
    return best(flips, *options, attack=False)  # an attack on the flips alone breaks what the fakes add


def _flips(protocol: Protocol, schema: Schema, n: int, honest: int, *, coarse: bool) -> Analysis:
    if protocol.sends_category:
        return category_analysis(protocol.q, schema, honest)
    if protocol.user_fakes:
        return user_fakes_analysis(protocol, schema, honest, protocol.user_fakes)
    return flip_analysis(protocol, schema, honest, honest_fakes(protocol, n, honest), coarse=coarse)


def honest_fakes(protocol: Protocol, n: int, honest: int) -> int:
    """Return how many of a fixed number m of fakes honest users surely send: all if all are honest, else ⌊m/n⌋ each.

    >>> honest_fakes(Protocol(0.1, m=300), 3, 1), honest_fakes(Protocol(0.1, m=301), 3, 3)
    (100, 301)
    """
    fixed = protocol.fixed_fakes
    return fixed if honest >= n else honest * (fixed // n)
