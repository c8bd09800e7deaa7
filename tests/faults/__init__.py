"""A fault campaign: damaged files, odd arguments and killed runs, each with what must be said.

Cases are data.  `damage` has what can be done to a file, `prepared` a small checkout with a run to
do it to, and `cases` what a case is and how it is judged; every other module has the cases of one
theme.  ``python -m tests.faults`` runs them all.
"""
