"""Where a run resumes, and whether query, sink and source agree to it.

Imports `ports` and the layers below the runtime. Never abandons anything before everybody was asked.
"""
