"""Where a run resumes, and whether query, sink and source agree.

Imports `ports` and the layers below the runtime. Never abandons anything before all three have agreed.
"""
