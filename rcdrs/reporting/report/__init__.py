"""The report: one self-contained page from whatever a run has left.

    report(plan, out, claims, extended)                              report.page
    trace_runs(instances, cores, depth, runs, settings, device)      report.trace
    trace_day(instances, cores, depth, runs, settings, device, day)  report.day

The two traces are stages of the workflow: they compute what the results do not hold.
"""
