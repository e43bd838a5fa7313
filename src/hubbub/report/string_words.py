"""Plans for strings that nobody listed in plain words: what a device sends, who learns what, what is shown."""

from hubbub.mechanisms.chances import chance_shown, count_shown
from hubbub.model.plans import Plan
from hubbub.model.questions import Text

EXAMPLE = "https://example.org/checkout"


def asked_string(strings: Text) -> str:
    """Say what is asked."""
    longer = "is cut" if strings.cut else "is not accepted"
    return (
        f"Every person gives one text of at most {strings.max_bytes:,} bytes, or none; a longer one {longer}. Nobody "
        "has to list the possible texts beforehand."
    )


def string_leaves() -> list[str]:
    """Say what leaves a device."""
    return [
        "The device sends the text unchanged. Whoever shuffles files of unsealed texts reads them. A sealed text is "
        "the same bytes for everybody who has it, and only the analyzer can open them; a device without a text sends "
        "bytes of its own.",
        "The shuffler counts equal texts. It subtracts a random number from every count, keeps that number secret, and "
        "passes on the text with what is left, if anything is.",
    ]


def string_learns(plan: Plan, told: str) -> list[tuple[str, str, str]]:
    """Return who sees what, and what that tells about one person."""
    alone = f"{chance_shown(plan, 1):.2g}"
    return [
        ("analyzer", "texts that many people have, each with a noisy number of them", told),
        (
            "shuffler",
            "which texts are equal, and how many people sent each; no senders",
            "if texts are sealed: whether anyone has a text that it had evaluated; with the results: the exact numbers "
            "of the texts that are shown",
        ),
        ("relay", "who takes part, and when; everything is sealed", "nothing about the text"),
        ("shuffler and analyzer, if they collude", "all texts and exact numbers, no senders", "not whose text it is"),
        ("relay and shuffler, if they collude", "who sent equal texts", "frequent texts can be guessed"),
        ("all three, if they collude", "every text with its sender", "the text (no protection)"),
        ("reader of the results", "what the analyzer publishes", f"a text of one person with probability {alone}"),
    ]


def string_precision(plan: Plan) -> str:
    """Say how many people must have a text for it to be shown."""
    half, most, alone = count_shown(plan, 0.5), count_shown(plan, 0.95), f"{chance_shown(plan, 1):.2g}"
    return (
        f"A text that {half:,} people have is shown in half of all collections, one that {most:,} people have in 95 of "
        f"100. The fewer people have a text, the more rarely it is shown: that of one person with probability {alone}."
    )


def string_meaning(payload: bytes, plan: Plan) -> str:
    """Return the text that a payload holds."""
    assert plan.schema.text is not None
    found = plan.schema.text.decode(payload[-plan.schema.text.size :])
    return "no text" if found is None else f"“{found[0]}”"


def example_string(strings: Text) -> str:
    """Return an invented text that fits."""
    return EXAMPLE[: strings.max_bytes]
