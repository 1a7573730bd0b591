# SPDX-License-Identifier: GPL-2.0-only
"""What `ccbpf metrics` prints, as a parser of its format reads it."""

from __future__ import annotations

from prometheus_client import parser
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from tests.functional.conftest import Cli

# What the controllers, units and rules have of their flows, those that have ended included.
TOTALS = ("bytes_acked", "retransmits", "indications", "cuts_to_one", "losses", "marks", "sending_seconds", "yielded_seconds")
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(cli: Cli, form: str = "prometheus", *words: str) -> Samples:
    """All samples, as the parser of that format reads them; each family has a help and a type."""
    return samples_of(cli("metrics", "--format", form, *words).out, form)


def samples_of(text: str, form: str = "prometheus") -> Samples:
    """The same of a page that was written."""
    parse = parse_openmetrics if form == "openmetrics" else parser.text_string_to_metric_families
    families = list(parse(text))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert family.documentation and family.type != "unknown" and family.name.startswith("ccbpf_"), family
        assert all(("_total" in sample.name) == (family.type == "counter") for sample in family.samples), family
    all_ = [((s.name, frozenset(s.labels.items())), s.value) for family in families for s in family.samples]
    assert len(dict(all_)) == len(all_)  # Prometheus refuses a page in which a series is there twice
    return dict(all_)


def of(found: Samples, name: str, **labels: str) -> float:
    """The one sample with these labels, among others."""
    (value,) = [v for (n, all_), v in found.items() if n == f"ccbpf_{name}" and labels.items() <= dict(all_).items()]
    return value
