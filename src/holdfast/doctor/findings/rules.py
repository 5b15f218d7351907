"""Every rule."""

from holdfast.doctor.findings import KNOWLEDGE
from holdfast.doctor.findings.context import CONTEXT_RULES
from holdfast.doctor.matching.clues import Rule

RULES: tuple[Rule, ...] = (*CONTEXT_RULES, *(rule for knowledge in KNOWLEDGE for rule in knowledge.rules))
