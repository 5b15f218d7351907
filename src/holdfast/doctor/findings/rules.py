"""Every rule, and what a raw line must contain for a rule to examine it."""

from holdfast.doctor.findings import KNOWLEDGE
from holdfast.doctor.findings.context import CONTEXT_RULES
from holdfast.doctor.matching.clues import Rule

RULES: tuple[Rule, ...] = (*CONTEXT_RULES, *(rule for knowledge in KNOWLEDGE for rule in knowledge.rules))
NEEDLES: tuple[str, ...] = tuple(sorted({needle for rule in RULES for needle in rule.needles}))
