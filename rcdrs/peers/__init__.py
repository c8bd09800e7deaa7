"""Against what one would use instead: other solvers and layers beside ours, on the same programs.

One file a peer, all behind the interface of `base`; `registry` lists them, `worker` measures one in
a process of its own, and `measure` makes of all of them the lines of a case.
"""
