"""The check on a corpus of small models: refused ones by the right line and remedy, accepted ones without a
finding, and those that run otherwise than meant with a warning."""

import inspect
import os
import re
import sys

import pytest
from torch import nn

from gnn_ipu_helpers.porting import check

from . import (
    corpus_accepted,
    corpus_everyday,
    corpus_more_accepted,
    corpus_more_refused,
    corpus_own_names,
    corpus_refused,
)
from . import corpus_inputs as given
from . import corpus_warned as warned
from .corpus_layers_elsewhere import Gate

MARK = re.compile(r"# <- (?:finding|warning)(?: of (?P<owner>\w+))?: (?P<words>.+)$")
REFUSED = [
    *corpus_refused.CASES,
    *corpus_more_refused.CASES,
    *corpus_everyday.REFUSED,
    *corpus_own_names.REFUSED,
]
ACCEPTED = [
    *corpus_accepted.CASES,
    *corpus_more_accepted.CASES,
    *corpus_everyday.ACCEPTED,
    *corpus_own_names.ACCEPTED,
]
WARNED = [*warned.CASES, *corpus_everyday.WARNED, *corpus_own_names.WARNED]


def cases(corpus):
    names = [case[0].__name__ for case in corpus]
    return pytest.mark.parametrize(("model", "inputs", "kwargs", "training"), corpus, ids=names)


def report_on(model, inputs, kwargs, training):
    built = model()
    built = built.train(training) if isinstance(built, nn.Module) else built
    return check(built, *inputs, **kwargs)


def marks_of(model):
    """`{line: words}` of the marks in the model's source, and of marks elsewhere in the file that name it."""
    lines, first = inspect.getsourcelines(model)
    file = inspect.getsourcelines(sys.modules[model.__module__])[0]
    found = {}
    for number, line in enumerate(file, start=1):
        mark = MARK.search(line)
        if mark and (
            mark["owner"] == model.__name__ or (not mark["owner"] and first <= number < first + len(lines))
        ):
            found[number] = mark["words"]
    return found


def assert_as_marked(model, findings, report):
    marks = marks_of(model)
    assert sorted({finding.line for finding in findings}) == sorted(marks), str(report)
    for finding in findings:
        assert os.path.basename(finding.file) == os.path.basename(sys.modules[model.__module__].__file__)
        assert finding.source.split("#")[0].strip() in inspect.getsource(sys.modules[model.__module__])
        assert finding.reason
    for line, words in marks.items():
        remedies = " ".join(finding.remedy for finding in findings if finding.line == line)
        missing = [word for word in words.split() if word not in remedies]
        assert not missing, f"{missing} not in the remedy for line {line}: {remedies}"


@cases(REFUSED)
def test_refused_model_is_reported_at_its_marked_lines_with_its_remedy(model, inputs, kwargs, training):
    report = report_on(model, inputs, kwargs, training)

    assert report.ok is False
    assert_as_marked(model, report.findings, report)


@cases(ACCEPTED)
def test_accepted_model_has_no_finding_and_no_warning(model, inputs, kwargs, training):
    report = report_on(model, inputs, kwargs, training)

    assert report.ok is True, str(report)
    assert report.warnings == [], str(report)


@cases(WARNED)
def test_what_is_probably_not_meant_is_a_warning_at_its_marked_lines(model, inputs, kwargs, training):
    report = report_on(model, inputs, kwargs, training)

    assert report.ok is True, str(report)
    assert_as_marked(model, report.warnings, report)


def test_the_corpus_is_as_large_as_promised():
    assert len(REFUSED) >= 120
    assert len(ACCEPTED) >= 80
    assert len(WARNED) >= 22


def test_the_line_of_a_layer_in_another_file_is_named():
    class Gated(nn.Module):
        def __init__(self, keeps_all):
            super().__init__()
            self.gate = Gate(given.CHANNELS, keeps_all)

        def forward(self, x):
            return self.gate(x).sum(dim=0)

    (finding,) = check(Gated(keeps_all=False).eval(), given.x).findings

    assert finding.file.endswith("corpus_layers_elsewhere.py")
    assert finding.source == "return x[is_open]"
    assert check(Gated(keeps_all=True).eval(), given.x).ok
