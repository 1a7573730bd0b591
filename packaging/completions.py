# SPDX-License-Identifier: GPL-2.0-only
"""The completions of ccbpf and netnice for bash, zsh and fish.

    python3 packaging/completions.py CCBPF DIRECTORY

They are made from the command's own tables. What may follow is told by the words of the usage lines: `NAME` is a controller, `DEV` a
device, and so on (KINDS); a word in lower case, in `attach|show` or `MIN,MAX|off`, stands for itself.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import tables
from tables import Command, Option, Tables

# What the words of usage lines stand for.
KINDS = {"NAME": "controllers", "DEV": "devices", "FILE": "files", "PATH": "files", "USER": "users", "KEY=VALUE": "keys"}
LITERAL = re.compile(r"[a-z][a-z-]*")
PLACEHOLDER = re.compile(r"[A-Z]+(?:=[A-Z]+)?")


def of_option(option: Option) -> list[str]:
    """What its argument may be: words and @kinds. NAME among others is not that of a controller."""
    parts = (option.argument or "").split("|")
    words = [part for part in parts if LITERAL.fullmatch(part)]
    kinds = [f"@{KINDS[part]}" for part in parts if part in KINDS and (part != "NAME" or len(parts) == 1)]
    return [*words, *dict.fromkeys(kinds)]


def of_arguments(command: Command) -> list[str]:
    """What an argument may be. COMMAND is one to run, or one of ours."""
    kinds = KINDS | {"COMMAND": "programs" if command.takes_command else "commands"}
    found = [f"@{kinds[word]}" for word in PLACEHOLDER.findall(command.positional()) if word in kinds]
    return [*command.verbs(), *dict.fromkeys(found)]


def expansions(t: Tables) -> dict[str, list[str]]:
    """The kinds whose words are known now."""
    keys = {f"{param['name']}=": None for controller in t.controllers for param in controller["params"]}
    return {
        "@commands": [command.name for command in t.commands],
        "@controllers": [controller["name"] for controller in t.controllers],
        "@keys": list(keys),
    }


def run_of(t: Tables) -> str:
    """The command that runs commands: netnice."""
    return next(command.name for command in t.commands if command.takes_command)


def forms(options: list[Option]) -> list[str]:
    return [form for option in options for form in reversed(option.forms())]


# --- bash ------------------------------------------------------------------------------------------------------------

BASH = r"""# bash completion of ccbpf and netnice. Made by packaging/completions.py.
# shellcheck shell=bash

# The options and the arguments of a command.
_ccbpf_options() {
    case $1 in
%(options)s
    esac
}

_ccbpf_arguments() {
    case $1 in
%(arguments)s
    esac
}

# What the argument of an option may be; fails where that is no option with an argument.
_ccbpf_values() {
    case "$1 $2" in
%(values)s
    *) return 1 ;;
    esac
}

# Each word that $2 can go on to: $1 has words and @kinds.
_ccbpf_reply() {
    local kind words=
    for kind in $1; do
        case $kind in
%(kinds)s
        @devices) words+=" $(cd /sys/class/net 2>/dev/null && echo *)" ;;
        @files) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$2") ;;
        @users) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -u -- "$2") ;;
        @programs) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -c -- "$2") ;;
        *) words+=" $kind" ;;
        esac
    done
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$words" -- "$2")
}

# Completes the command that $1 is to run. It begins at words[i], behind the options of $1 and a controller; fails before.
_ccbpf_program() {
    local begun='' seen=''
    for (( ; i < last && !${#begun}; i++)); do
        case ${words[i]} in
        --) begun=$((i + 1)) ;;
        -*) ! _ccbpf_values "$1" "${words[i]}" >/dev/null || i+=1 ;;
        %(controllers)s) [[ ! $seen ]] || begun=$i; seen=yes ;;
        *) begun=$i ;;
        esac
    done
    [[ $begun ]] || return
    if ((begun == last)); then
        _ccbpf_reply @programs "$current"
    elif declare -F _command_offset >/dev/null; then
        for ((i = 0; i < COMP_CWORD; i++)); do # counted in bash's words
            [[ ${COMP_WORDS[i]} != "${words[begun]}" ]] || break
        done
        _command_offset "$i"
    else
        _ccbpf_reply @files "$current"
    fi
}

# The words up to the cursor, as they are without COMP_WORDBREAKS: `--set=delta=` is one.
_ccbpf() {
    local line=${COMP_LINE:0:COMP_POINT} words current previous command=''
    local -i i last
    read -ra words <<<"$line"
    case $line in *[[:space:]]) words+=("") ;; esac
    last=${#words[@]}-1 current=${words[-1]} COMPREPLY=()
    [[ ${words[0]##*/} != %(netnice)s ]] || command=%(run)s
    for ((i = 1; i < last && !${#command}; i++)); do
        [[ ${words[i]} == -* ]] || command=${words[i]}
    done
    [[ $command != %(run)s ]] || ! _ccbpf_program "$command" || return
    previous=${words[-2]}
    if [[ $current == --*=* ]]; then
        _ccbpf_reply "$(_ccbpf_values "$command" "${current%%%%=*}")" "${current#*=}"
        COMPREPLY=("${COMPREPLY[@]/#/${current%%%%=*}=}")
    elif ! [[ $command && $previous == --* ]] || ! _ccbpf_values "$command" "$previous" >/dev/null; then
        if [[ $current == -* ]]; then
            _ccbpf_reply "$(_ccbpf_options "$command") %(global)s" "$current"
        elif [[ ! $command ]]; then
            _ccbpf_reply @commands "$current"
        else
            _ccbpf_reply "$(_ccbpf_arguments "$command")" "$current"
        fi
    else
        _ccbpf_reply "$(_ccbpf_values "$command" "$previous")" "$current"
    fi
    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
    # bash replaces only what stands behind the last of its own word breaks
    previous=${current%%"${current##*["${COMP_WORDBREAKS//[^=:]/}"]}"}
    [[ ! ${COMP_WORDBREAKS//[^=:]/} || ! $previous ]] || COMPREPLY=("${COMPREPLY[@]#"$previous"}")
}

complete -F _ccbpf ccbpf %(netnice)s
"""


def bash(t: Tables) -> str:
    def case(pattern: str, words: list[str]) -> str:
        return f"    {pattern}) echo '{' '.join(words)}' ;;"

    with_argument = [(command.name, option) for command in t.commands for option in command.options if option.argument]
    return BASH % {
        "options": "\n".join(case(command.name, forms(command.options)) for command in t.commands if command.options),
        "arguments": "\n".join(case(command.name, of_arguments(command)) for command in t.commands if of_arguments(command)),
        "values": "\n".join(
            case(" | ".join(f"'{name} {form}'" for form in option.forms()), of_option(option)) for name, option in with_argument
        ),
        "kinds": "\n".join(f"        {kind}) words+=' {' '.join(words)}' ;;" for kind, words in expansions(t).items()),
        "run": run_of(t),
        "controllers": " | ".join(expansions(t)["@controllers"]),
        "global": " ".join(forms(t.options)),
        "netnice": tables.NETNICE,
    }


# --- zsh -------------------------------------------------------------------------------------------------------------

ZSH = r"""#compdef ccbpf %(netnice)s
# zsh completion of ccbpf and netnice. Made by packaging/completions.py.

_ccbpf_command() {
    case $1 in
%(cases)s
    esac
}

# A controller may stand before the command to run.
_ccbpf_program() {
    local -a controllers=(%(controllers)s)
    if ((CURRENT == 1)); then
        compadd -a controllers
    elif (($controllers[(Ie)$words[1]])); then
        shift words
        ((CURRENT--))
    fi
    _normal
}

_ccbpf() {
    local curcontext=$curcontext state line
    typeset -A opt_args
    if [[ $service == %(netnice)s ]]; then
        _ccbpf_command %(run)s
        return
    fi
    _arguments -C %(global)s '1:command:->command' '*::argument:->argument'
    case $state in
    command)
        local -a commands=(%(commands)s)
        _describe command commands
        ;;
    argument) _ccbpf_command $words[1] ;;
    esac
}

_ccbpf "$@"
"""
ZSH_KINDS = {"@devices": "_net_interfaces", "@files": "_files", "@users": "_users"}


def zsh_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_action(t: Tables, words: list[str]) -> str:
    """A list of words, or what completes the first kind that has a function."""
    functions = [ZSH_KINDS[word] for word in words if word in ZSH_KINDS]
    known = [known for word in words if word not in ZSH_KINDS for known in expansions(t).get(word, [word])]
    if known and functions:
        return f"{{compadd {' '.join(known)}; {functions[0]}}}"
    return f"({' '.join(known)})" if known else functions[0] if functions else " "


def zsh_options(t: Tables, options: list[Option]) -> Iterator[str]:
    for option in options:
        text = re.sub(r"([][:\\])", r"\\\1", option.text)
        for form in option.forms():
            argument = (
                f":{re.sub('[^A-Za-z]+', ' ', option.argument)}:{zsh_action(t, of_option(option))}" if option.argument else ""
            )
            yield zsh_quoted(f"*{form}{'=' if argument else ''}[{text}]{argument}")


def zsh(t: Tables) -> str:
    cases = []
    for command in t.commands:
        words = [word for word in of_arguments(command) if word != "@programs"]
        rest = "'*:: :_ccbpf_program'" if command.takes_command else zsh_quoted(f"*:argument:{zsh_action(t, words)}")
        options = " ".join(zsh_options(t, [*command.options, *t.options]))
        cases.append(f"    {command.name}) _arguments {options} {rest} ;;")
    return ZSH % {
        "netnice": tables.NETNICE,
        "cases": "\n".join(cases),
        "controllers": " ".join(expansions(t)["@controllers"]),
        "run": run_of(t),
        "global": " ".join(zsh_options(t, t.options)),
        "commands": " ".join(zsh_quoted(f"{command.name}:{command.text}") for command in t.commands),
    }


# --- fish ------------------------------------------------------------------------------------------------------------

FISH_KINDS = {"@devices": "(command ls /sys/class/net)", "@users": "(__fish_complete_users)"}


def fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_words(t: Tables, words: list[str]) -> str:
    """The words of -a, and -F where files are among them."""
    known = [known for word in words for known in expansions(t).get(word, [FISH_KINDS.get(word, word)])]
    listed = " ".join(word for word in known if word not in ("@files", "@programs"))
    return (f" -a {fish_quoted(listed)}" if listed else "") + (" -F" if "@files" in words else " -f")


def fish_option(t: Tables, option: Option) -> str:
    short = f" -s {option.short[1:]}" if option.short else ""
    argument = f" -r{fish_words(t, of_option(option))}" if option.argument else ""
    return f"{short} -l {option.name[2:]}{argument} -d {fish_quoted(option.text)}"


def fish(t: Tables) -> str:
    lines = ["# fish completion of ccbpf and netnice. Made by packaging/completions.py.", "", "complete -c ccbpf -f"]
    lines += [f"complete -c ccbpf{fish_option(t, option)}" for option in t.options]
    lines += [
        f"complete -c ccbpf -n __fish_use_subcommand -a {command.name} -d {fish_quoted(command.text)}" for command in t.commands
    ]
    for command in t.commands:
        begin = f"complete -c ccbpf -n '__fish_seen_subcommand_from {command.name}'"
        lines += [f"{begin}{fish_option(t, option)}" for option in command.options]
        if words := fish_words(t, of_arguments(command)):
            lines += [f"{begin}{words}"]
        if command.takes_command:
            lines += [f"{begin} -x -a '(__fish_complete_subcommand --fcs-skip=2)'"]
            lines += [f"complete -c {tables.NETNICE}{fish_option(t, option)}" for option in [*command.options, *t.options]]
            lines += [
                f"complete -c {tables.NETNICE}{words}",
                f"complete -c {tables.NETNICE} -x -a '(__fish_complete_subcommand)'",
            ]
    return "\n".join(lines) + "\n"


def main(ccbpf: str, directory: Path) -> None:
    t = tables.read(ccbpf)
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in {"ccbpf.bash": bash(t), "_ccbpf": zsh(t), "ccbpf.fish": fish(t)}.items():
        (directory / name).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
