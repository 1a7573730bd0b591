# SPDX-License-Identifier: GPL-2.0-only
"""The manual pages, in mdoc(7): ccbpf(8), ccbpf-COMMAND(8) for each command, ccbpf.toml(5), and ccbpf-controllers(7).

    python3 packaging/manual.py CCBPF DIRECTORY

They are made from the command's own tables, from the help of `ccbpf top` (loader/top/screen.c), and from the table of metrics
(docs/monitoring.md). What these do not say is in packaging/man/PAGE.mdoc: sections, each put before the generated text of the same
section. The date is that of SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import tables
from tables import Command, Option, Tables

ROOT = Path(__file__).resolve().parents[1]
PROSE = ROOT / "packaging/man"
WIDTH = 78
SECTIONS = [
    "NAME",
    "SYNOPSIS",
    "DESCRIPTION",
    "SCREEN",
    "METRICS",
    "ENVIRONMENT",
    "FILES",
    "EXIT STATUS",
    "EXAMPLES",
    "SEE ALSO",
    "CAVEATS",
]
TOKEN = re.compile(r"[][|]|\.\.\.|[^][|.\s]+")


def escaped(text: str) -> str:
    """A line of text: nothing in it is a request, dashes of options are dashes, `code` is bold."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"(?<![\w-])-{1,2}(?=\w)", lambda dashes: r"\-" * len(dashes[0]), text)
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)
    return f"\\&{text}" if text.startswith((".", "'")) else text


def paragraph(text: str) -> list[str]:
    """One sentence a line, as mdoc wants it; long ones in several, with no end of a line in `code`."""
    whole = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", "\0"), text)
    sentences = re.split(r"(?<=[.;]) (?=[A-Z`])", whole)
    lines = [line for sentence in sentences for line in textwrap.wrap(sentence, WIDTH - 12, break_on_hyphens=False)]
    return [escaped(line.replace("\0", " ")) for line in lines]


def sentence(text: str, verbs: Sequence[str] = ()) -> str:
    """With a capital letter, but not where it begins with `what is entered` or with "VERB: "."""
    first, colon, _ = text.partition(": ")
    begin = text[0] if colon and first in verbs else text[0].upper()
    return f"{begin}{text[1:]}{'' if text.endswith('.') else '.'}"


def quoted(word: str) -> str:
    return '"' + word.replace("\\", "\\e") + '"' if re.search(r"[^\w./:-]", word) else word


def usage(arguments: str) -> list[str]:
    """The macros of a usage line."""
    lines: list[str] = []
    for token in TOKEN.findall(arguments):
        if token == "..." and lines:
            lines[-1] += " ..."
        elif token in "[]":
            lines.append(".Oo" if token == "[" else ".Oc")
        elif token == "|":
            lines.append("|")
        elif token.startswith("-"):
            lines.append(f".Fl {token[1:]}")
        else:
            lines.append(f".{'Cm' if token.islower() else 'Ar'} {quoted(token)}")
    return lines


def option_list(options: list[Option], verbs: Sequence[str] = ()) -> list[str]:
    lines = [".Bl -tag -width Ds"]
    for option in options:
        head = " , ".join(f"Fl {form[1:]}" for form in option.forms())
        argument = f" Ns = Ns Ar {quoted(option.argument)}" if option.argument else ""
        lines += [f".It {head}{argument}", *paragraph(sentence(option.text, verbs))]
    return [*lines, ".El"]


def screen() -> list[str]:
    """What the key ? of `ccbpf top` shows."""
    (table,) = re.findall(r"\bhelp\[\] = \{(.*?)\n\};", (ROOT / "loader/top/screen.c").read_text(), re.S)
    lines = re.findall(r'^\t"(.*)",$', table, re.M)[2:-1]
    return [".Bd -literal", *(escaped(line.removeprefix("  ")) for line in lines), ".Ed"]


def plain(markdown: str) -> str:
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", markdown).replace("…", "...").strip()


def metrics() -> list[str]:
    lines = [".Bl -tag -width Ds"]
    for row in re.findall(r"^\| (`ccbpf_.*) \|$", (ROOT / "docs/monitoring.md").read_text(), re.M):
        names, labels, text = map(plain, row.split("|"))
        found = re.findall(r"`([^`]+)`", names)
        lines += [".It Xo", *(f".Va {name} ," for name in found[:-1]), f".Va {found[-1]}", ".Xc"]
        lines += [*paragraph(sentence(text)), *([f"Labels: {escaped(labels)}."] if labels else [])]
    return [*lines, ".El"]


def own_sections(page: str) -> dict[str, list[str]]:
    file = PROSE / f"{page}.mdoc"
    sections: dict[str, list[str]] = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        if line.startswith('.\\"'):
            continue
        if line.startswith(".Sh "):
            sections[line[4:]] = []
        else:
            sections[list(sections)[-1]].append(line)
    return sections


def page(name: str, number: int, version: str, sections: dict[str, list[str]]) -> str:
    """The sections in the usual order. Prose stands before what is generated."""
    day = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))
    lines = [
        '.\\" SPDX-License-Identifier: GPL-2.0-only',
        f'.\\" Made by packaging/manual.py from the tables of ccbpf {version}.',
        f".Dd {time.strftime('%B', day)} {day.tm_mday}, {day.tm_year}",
        f".Dt {name.upper()} {number}",
        ".Os",
    ]
    own = own_sections(name)
    if unknown := set(own) - set(SECTIONS):
        raise SystemExit(
            f"manual: packaging/man/{name}.mdoc: no such section: {', '.join(unknown)}; there are {', '.join(SECTIONS)}"
        )
    for section in SECTIONS:
        bodies = [body for body in (own.get(section), sections.get(section)) if body]
        if bodies:
            lines += [
                f".Sh {section}",
                *bodies[0],
                *(line for body in bodies[1:] for line in ([] if body[0].startswith(".Ss") else [".Pp"]) + body),
            ]
    return "\n".join(lines) + "\n"


def see_also(*pages: tuple[int, str]) -> list[str]:
    lines = [f".Xr {name} {number}" for number, name in sorted(pages)]
    return [*(f"{line} ," for line in lines[:-1]), lines[-1]]


MORE = {"top": ("SCREEN", screen), "metrics": ("METRICS", metrics)}


def of_command(command: Command, t: Tables) -> str:
    names = [f"ccbpf-{command.name}", *([tables.NETNICE] if command.takes_command else [])]
    what = f"{command.text[0].lower()}{command.text[1:]}"
    own_options = [".Op Ar option ..."] if command.options else []
    synopsis = [
        line
        for form in command.arguments.split(" | ")
        for line in (f".Nm ccbpf Cm {command.name}", *own_options, *usage(re.sub(r"\[--\w[^]]*\]", "", form)))
    ]
    description = paragraph(sentence(command.text))
    if command.more:
        description += [".Pp", *paragraph(command.more)]
    if command.shows_params:
        description += [".Pp", "The parameters of each controller are listed in", ".Xr ccbpf-controllers 7 ."]
    if command.options:
        description += [".Pp", "Its options:", *option_list(command.options, command.verbs())]
    description += [".Pp", "The options of all commands are described in", ".Xr ccbpf 8 ."]
    sections = {
        "NAME": [*(f".Nm {name}{' ,' if name != names[-1] else ''}" for name in names), f".Nd {what}"],
        "SYNOPSIS": [*synopsis, *([f".Nm {tables.NETNICE}", *own_options, *usage(command.arguments)] if len(names) > 1 else [])],
        "DESCRIPTION": description,
        "SEE ALSO": see_also((5, "ccbpf.toml"), (7, "ccbpf-controllers"), (8, "ccbpf")),
    }
    if command.name in MORE:
        section, more = MORE[command.name]
        sections[section] = more()
    if not command.takes_command:
        sections["EXIT STATUS"] = ["The exit codes are described in", ".Xr ccbpf 8 ."]
    return page(f"ccbpf-{command.name}", 8, t.version, sections)


def of_all(t: Tables) -> str:
    commands = [
        line
        for command in t.commands
        for line in (f".It Cm {command.name}", *paragraph(sentence(command.text)), f"See\n.Xr ccbpf-{command.name} 8 .")
    ]
    codes = [line for code, text in t.exit_codes for line in (f".It {code}", *paragraph(sentence(text)))]
    sections = {
        "NAME": [".Nm ccbpf", ".Nd a background class for TCP"],
        "SYNOPSIS": [".Nm", ".Op Ar option ...", ".Ar command", ".Op Ar argument ..."],
        "DESCRIPTION": [
            "The commands:",
            ".Bl -tag -width Ds",
            *commands,
            ".El",
            ".Pp",
            "The options of all commands:",
            *option_list(t.options),
        ],
        "EXIT STATUS": [".Bl -tag -width Ds", *codes, ".El"],
        "SEE ALSO": see_also(
            (5, "ccbpf.toml"), (7, "ccbpf-controllers"), *((8, f"ccbpf-{command.name}") for command in t.commands)
        ),
    }
    return page("ccbpf", 8, t.version, sections)


def of_controllers(t: Tables) -> str:
    lines: list[str] = []
    for c in t.controllers:
        who = "Any process may select it." if c["access"] == "open" else "Only a process with CAP_NET_ADMIN may select it."
        lines += [
            f".Ss {c['name']}",
            *paragraph(sentence(c["title"])),
            who,
            ".br",
            *paragraph(f"Source: {sentence(c['source'])}"),
        ]
        lines += [".Bl -tag -width Ds"]
        for p in c["params"]:
            lines += [f".It Va {p['name']}", f"{p['min']} to {p['max']} {escaped(p['unit'])}, by default {p['default']}"]
            lines += [*paragraph(f"({p['source']})."), ".br", *paragraph(sentence(p["text"]))]
        lines += [".El"]
    sections = {
        "NAME": [".Nm ccbpf-controllers", ".Nd congestion controllers of ccbpf and their parameters"],
        "DESCRIPTION": lines,
        "SEE ALSO": see_also((8, "ccbpf"), (8, "ccbpf-enable"), (8, "ccbpf-set")),
    }
    return page("ccbpf-controllers", 7, t.version, sections)


def of_file(t: Tables) -> str:
    """The keys of a rule are the options of `ccbpf assign`."""
    (assign,) = [command for command in t.commands if command.name == "assign"]
    keys = [option for option in assign.options if option.name != "--all"]
    rule = [".It Va controller No = Qq Ar NAME", "The controller that it gives, by default that of", ".Xr ccbpf-assign 8 ."]
    switches = "|".join(option.name for option in keys if not option.argument)
    for option in keys:
        text = re.sub(rf"(?:{switches})\b", lambda name: f"`{name[0][2:]} = true`", option.text)
        value = (
            "Cm true" if not option.argument else f"Qq Ar {quoted(option.argument.removesuffix('|PID'))}"
        )  # a process lives no boot
        rule += [f".It Va {option.name[2:]} No = {value}", *paragraph(sentence(text))]
    sections = {
        "NAME": [".Nm ccbpf.toml", ".Nd which controllers a host has, and which connections get them"],
        "DESCRIPTION": [
            ".Ss Sections \\(lB\\fBcontroller.NAME\\fR\\(rB",
            *paragraph("The controller is enabled, with its default parameters but for those that are set."),
            "One that a rule gives need not be there.",
            ".Bl -tag -width Ds",
            ".It Va set.KEY No = Ar NUMBER",
            "A parameter of",
            ".Xr ccbpf-controllers 7 .",
            ".It Va default No = Cm true",
            *paragraph("New connections of this network namespace have it; only one controller can be the default."),
            ".It Va ecn No = Cm true",
            "Connections of this network namespace ask for ECN.",
            ".El",
            ".Ss Sections \\(lB\\(lBrule\\(rB\\(rB",
            "New connections that meet all conditions of the rule get its controller.",
            "A port may be a number without quotes.",
            "Of several rules that match one wins, as with",
            ".Xr ccbpf-assign 8 ;",
            "between equals, the first one in the file.",
            ".Bl -tag -width Ds",
            *rule,
            ".El",
        ],
        "SEE ALSO": see_also((7, "ccbpf-controllers"), (8, "ccbpf"), (8, "ccbpf-apply"), (8, "ccbpf-assign")),
    }
    return page("ccbpf.toml", 5, t.version, sections)


def main(ccbpf: str, directory: Path) -> None:
    t = tables.read(ccbpf)
    pages = {"ccbpf.8": of_all(t), "ccbpf.toml.5": of_file(t), "ccbpf-controllers.7": of_controllers(t)}
    for command in t.commands:
        pages[f"ccbpf-{command.name}.8"] = of_command(command, t)
    directory.mkdir(parents=True, exist_ok=True)
    for file in directory.iterdir():  # of a command that is no more
        file.unlink()
    for name, text in pages.items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
