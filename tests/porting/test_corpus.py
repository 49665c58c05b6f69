"""The check on a corpus of small models: refused ones by the right line and remedy, accepted ones
without a finding."""

import inspect
import os
import re

import pytest

from gnn_ipu_helpers.porting import check

from . import corpus_accepted, corpus_refused

MARK = re.compile(r"# <- finding(?: of (?P<owner>\w+))?: (?P<words>.+)$")


def expected(model):
    """`{line: words}` of the marks in the model's source, and of marks elsewhere in the file that name it."""
    lines, first = inspect.getsourcelines(model)
    file = inspect.getsourcelines(corpus_refused)[0]
    found = {}
    for number, line in enumerate(file, start=1):
        mark = MARK.search(line)
        if mark and (
            mark["owner"] == model.__name__ or (not mark["owner"] and first <= number < first + len(lines))
        ):
            found[number] = mark["words"]
    return found


@pytest.mark.parametrize(
    ("model", "inputs", "kwargs", "training"), corpus_refused.CASES, ids=lambda v: getattr(v, "__name__", "")
)
def test_refused_model_is_reported_at_its_marked_lines_with_its_remedy(model, inputs, kwargs, training):
    report = check(model().train(training), *inputs, **kwargs)

    marks = expected(model)
    assert report.ok is False
    assert sorted({finding.line for finding in report.findings}) == sorted(marks), str(report)
    for finding in report.findings:
        assert os.path.basename(finding.file) == "corpus_refused.py"
        assert finding.source.split("#")[0].strip() in inspect.getsource(corpus_refused)
        assert finding.reason
    for line, words in marks.items():
        remedies = " ".join(finding.remedy for finding in report.findings if finding.line == line)
        missing = [word for word in words.split() if word not in remedies]
        assert not missing, f"{missing} not in the remedy for line {line}: {remedies}"


@pytest.mark.parametrize(
    ("model", "inputs", "kwargs", "training"), corpus_accepted.CASES, ids=lambda v: getattr(v, "__name__", "")
)
def test_accepted_model_has_no_finding(model, inputs, kwargs, training):
    report = check(model().train(training), *inputs, **kwargs)

    assert report.ok is True, str(report)
    assert report.findings == []


def test_the_corpus_is_as_large_as_promised():
    assert len(corpus_refused.CASES) >= 25
    assert len(corpus_accepted.CASES) >= 25
