"""Every rule there is, and what a raw line must contain for one of them to look at it."""

from holdfast.doctor.clues import Rule

RULES: tuple[Rule, ...] = ()
NEEDLES: tuple[str, ...] = tuple(sorted({needle for rule in RULES for needle in rule.needles}))
