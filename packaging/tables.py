# SPDX-License-Identifier: GPL-2.0-only
"""What the command says of itself: `ccbpf -j help`, `list` and `version`, which print the loader's tables. The manual pages and the
completions are made from this, so a new command or option needs nothing here."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from typing import Any

VERB = re.compile(r"(?<![-\w])[a-z]+(?!\w)")
NETNICE = "netnice"  # another name of the command that runs commands


@dataclass(frozen=True)
class Option:
    name: str
    short: str | None
    argument: str | None
    text: str

    def forms(self) -> list[str]:
        return [self.short, self.name] if self.short else [self.name]


@dataclass(frozen=True)
class Command:
    name: str
    arguments: str
    text: str
    more: str | None
    shows_params: bool
    takes_command: bool
    options: list[Option]

    def positional(self) -> str:
        """Its arguments without the options that the usage line also shows."""
        return re.sub(r"\[--\w[^]]*\]", "", self.arguments)

    def verbs(self) -> list[str]:
        return VERB.findall(self.positional())


@dataclass(frozen=True)
class Tables:
    version: str
    commands: list[Command]
    options: list[Option]
    exit_codes: list[tuple[int, str]]
    controllers: list[dict[str, Any]]


def ask(ccbpf: str, *words: str) -> Any:
    """No privilege is needed: without it the state of the controllers is unknown, which nobody here reads."""
    return json.loads(subprocess.run([ccbpf, "-j", *words], check=True, capture_output=True, text=True).stdout)


def read(ccbpf: str) -> Tables:
    described = ask(ccbpf, "help")
    commands = [Command(**row | {"options": [Option(**option) for option in row["options"]]}) for row in described["commands"]]
    return Tables(
        ask(ccbpf, "version")["version"],
        commands,
        [Option(**option) for option in described["options"]],
        [(row["code"], row["text"]) for row in described["exit_codes"]],
        ask(ccbpf, "list"),
    )
