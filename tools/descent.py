"""The search by which tools/fit_model.py and tools/scaling_model.py fit numbers to times."""


def improve(values, names, factors, least, badness):
    """Changes one of the named values at a time, by ever smaller factors, while `badness` of all
    values becomes smaller by more than `least`. Returns the best values."""
    best = badness(values)
    for factor in factors:
        improved = True
        while improved:
            improved = False
            for name in names:
                for changed in (values[name] * factor, values[name] / factor):
                    trial = {**values, name: changed}
                    found = badness(trial)
                    if found < best - least:
                        best, values, improved = found, trial, True
    return values
