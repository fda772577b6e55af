"""What completes commands in a shell: the words that may follow a verb, said in the shell's own language."""

from collections.abc import Iterator

from vlnbert.cli.parser import Command

SHELLS = ("bash", "zsh", "fish")
FOR_BASH = """# Put this into ~/.bashrc: source <(vlnbert completion bash)
_vlnbert() {
    local said="${COMP_WORDS[*]:1:COMP_CWORD-1} " known
    case "$said" in
CASES
    esac
    COMPREPLY=($(compgen -W "$known" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _vlnbert vlnbert
"""
FOR_ZSH = """# Put this into ~/.zshrc, behind compinit: source <(vlnbert completion zsh)
_vlnbert() {
    local said="${(j: :)words[2,CURRENT-1]} " known
    case "$said" in
CASES
    esac
    compadd -- ${=known}
    _files
}
compdef _vlnbert vlnbert
"""
FOR_FISH = """# vlnbert completion fish > ~/.config/fish/completions/vlnbert.fish
function __vlnbert
    set -l said (commandline -opc)
    switch "$said[2..] "
CASES
    end
end
complete -c vlnbert -a '(__vlnbert)'
"""


def script(shell: str) -> str:
    """What a shell has to read."""
    around = {"bash": FOR_BASH, "zsh": FOR_ZSH, "fish": FOR_FISH}[shell]
    case = "        case '{}*'; string split ' ' '{}'" if shell == "fish" else '        "{}"*) known="{}" ;;'
    return around.replace("CASES", "\n".join(case.format(said, " ".join(known)) for said, known in _words()))


def _words() -> Iterator[tuple[str, list[str]]]:
    """What may follow what was said; longer beginnings come first."""
    from vlnbert.cli.train import beginning, resuming
    from vlnbert.learning.presets import presets

    groups = dict[str, list[str]]()
    for name, one in Command.every.items():
        first, _, second = name.partition(" ")
        groups.setdefault(first, []).extend([second] if second else [])
        # Settings are those of a preset of either kind.
        commands = [resuming(), beginning("demo"), beginning("speaker-demo")] if name == "train" else [one]
        places = {"train": [*presets], "presets": [*presets], "completion": [*SHELLS]}.get(name, [])
        options = dict.fromkeys(option for one in commands for option in one.by_name)
        yield f"{name} ", [*places, *options, "--help", *(["--help-all"] if name == "train" else [])]
    yield from ((f"{first} ", members) for first, members in groups.items() if members)
    yield "help ", [*groups]
    yield "", [*groups, "help", "--plugin", "--version"]
