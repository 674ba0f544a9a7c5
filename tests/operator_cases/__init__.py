"""What each operator must compute, as numpy says it: one case per operator, form and dtype.

A case is (operator, Relay expression over %a, %b, ..., inputs, expected array, tolerance). Each module
here has the cases of a family, in a function `cases(case)` that calls `case` with each of them.
"""

from operator_cases import binary, boxes, convolutions, detection, dynamic, edges, elementwise, examples, forms, images, indexing, neural, norms, quantized, random_numbers, reductions, sampling, search_and_update, shapes, sparse
from operator_cases.case import Case

FAMILIES = (elementwise, binary, reductions, shapes, indexing, neural, convolutions, norms, images, search_and_update, quantized, random_numbers, dynamic, boxes, forms, sampling, detection, edges, sparse, examples)

_cases = []


def all_cases():
    if not _cases:
        for family in FAMILIES:
            family.cases(lambda *parts, **options: _cases.append(Case(*parts, **options)))
    return _cases


def by_operator(cases):
    """Lists of cases, one for each operator."""
    groups = {}
    for case in cases:
        groups.setdefault(case.op, []).append(case)
    return list(groups.values())


def one_in(every, cases):
    """One in `every` cases of each operator, and at least one."""
    return [case for group in by_operator(cases) for case in group[::every]]
