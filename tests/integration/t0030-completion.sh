#!/bin/bash
# Completion, as bash, zsh and fish themselves would ask for it.
. "$(dirname "$0")/lib.sh"

# complete_line WORD...: the answers when the cursor is behind the last word.
complete_line() {
    bash --norc --noprofile -c '
        source <(doze completion bash) || exit 1
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _doze || true
        printf "%s\n" "${COMPREPLY[@]}"
    ' completion "$@" | sort
}

# answers TEXT: exactly these words, in order of the alphabet.
answers() {
    local got
    got=$(tr '\n' ' ')
    [ "${got% }" = "$1" ] && return 0
    echo "answered \"$got\", not \"$1\""
    return 1
}

test_that 'the script is sound and defines a completion for doze' '
    doze completion bash >script && bash -n script &&
    bash --norc --noprofile -c ". ./script && complete -p doze" >out 2>err &&
    empty err && has out "-F _doze doze"
'

test_that 'the first word is completed to commands' '
    complete_line doze doct | answers doctor &&
    complete_line doze "" >out && has out doctor && has out help && has out completion &&
    complete_line doze zzz | answers ""
'

test_that 'every command of the list can be reached' '
    doze help | sed -n "s/^  \([a-z][a-z ]*[a-z]\)  .*/\1/p" >names &&
    while read -r first rest; do
        complete_line doze "$first" | grep -qx "$first" &&
        { [ -z "$rest" ] || complete_line doze "$first" "$rest" | grep -qx "$rest"; } ||
            { echo "not reached: $first $rest"; exit 1; }
    done <names
'

test_that 'options are completed for the command typed' '
    complete_line doze doctor --j | answers --json &&
    complete_line doze doctor -- | answers "--config= --data= --help --json --quiet" &&
    complete_line doze doctor --json --q | answers --quiet &&
    complete_line doze --v | answers --version &&
    complete_line doze -- | answers "--help --json --quiet --version" &&
    complete_line doze --json doctor --q | answers --quiet &&
    complete_line doze -q doct | answers doctor &&
    complete_line doze nonsense --j | answers ""
'

test_that 'operands that are words are completed, and help knows the commands' '
    complete_line doze completion "" | answers "bash fish zsh" &&
    complete_line doze help doc | answers doctor &&
    complete_line doze help --a | answers --all
'

test_that 'behind an = the shell completes file names' '
    complete_line doze doctor --data = /tm | answers ""
'

# zsh_line WORD...: what _doze would offer, "word:what it does"; "files" when it asks for files.
zsh_line() {
    ZDOTDIR=/nowhere zsh -f -c '
        compdef() { [[ "$*" == "_doze doze" ]] || exit 3 }
        _describe() {
            [[ $1 == -o ]] && shift
            print -rl -- "${(@P)2}" | while IFS= read -r line; do [[ $line == ${words[CURRENT]}* ]] && print -r -- $line; done
            true
        }
        _files() { print files }
        source <(doze completion zsh) || exit 1
        words=("$@") CURRENT=$#
        _doze
    ' zsh "$@" | sort
}
# fish_line LINE: what fish itself offers for it
fish_line() {
    fish --no-config -c 'doze completion fish | source; complete -C $argv[1]' "$1" | sort
}

test_that 'zsh: commands, options and operands with what they do; else files' '
    command -v zsh >/dev/null || skip "no zsh"
    doze completion zsh >_doze && zsh -n _doze && head -n 1 _doze | grep -qx "#compdef doze" &&
    zsh_line doze doct >out && lines out 1 && has out "doctor:" && zsh_line doze disk "" >out && has out "ls:" && has out "untar:" &&
    zsh_line doze doctor --d >out && has out "--data=:" && zsh_line doze -q doctor --j >out && has out "--json:print" &&
    zsh_line doze completion "" | cut -d: -f1 | answers "bash fish zsh" && zsh_line doze disk ls "" | answers files &&
    zsh_line doze help doct >out && has out "doctor:" && zsh_line doze nonsense --j | answers ""
'
test_that 'zsh finds the function in its path, and knows it for doze' '
    command -v zsh >/dev/null || skip "no zsh"
    mkdir -p site && doze completion zsh >site/_doze && chmod go-w . site site/_doze &&
    run 0 zsh -f -c "fpath=(\$PWD/site \$fpath); autoload -U compinit && compinit -u -d zdump && print \$_comps[doze] && autoload +X _doze" && has out _doze && empty err
'
test_that 'fish: commands, options and operands with what they do; else files' '
    command -v fish >/dev/null || skip "no fish"
    doze completion fish >doze.fish && fish --no-config -n doze.fish && : >a-file &&
    fish_line "doze doct" >out && lines out 1 && has out "doctor	" && fish_line "doze disk " >out && has out "ls	" && has out "untar	" && lacks out a-file &&
    fish_line "doze doctor --d" >out && has out "--data=	" && fish_line "doze -q doctor --j" >out && has out "--json	print" &&
    fish_line "doze completion " | cut -f1 | sort | answers "bash fish zsh" && fish_line "doze disk ls a-" >out && has out a-file &&
    fish_line "doze help doct" >out && has out "doctor	" && fish_line "doze nonsense --j" | answers ""
'
test_that 'zsh and fish reach every command of the list' '
    command -v zsh >/dev/null && command -v fish >/dev/null || skip "no zsh or fish"
    doze help | sed -n "s/^  \([a-z][a-z -]*[a-z]\)  .*/\1/p" >names && [ "$(wc -l <names)" -gt 60 ] &&
    zsh -f -c "compdef() { :; }; source <(doze completion zsh); while read -r line; do name=\${line% *}; [[ \$name == \$line ]] && name=; _doze_words \"\$name\" | grep -q \"^\${line##* }:\" || print -r -- \$line; done <names" >out && empty out &&
    fish --no-config -c "doze completion fish | source; while read -l line; set -l name (string match -r \"(.*) \" -- \$line)[2]; _doze_words \"\$name\" | string match -q -- (string split \" \" \$line)[-1]\\t\"*\"; or echo \$line; end <names" >out && empty out
'
test_that 'a shell that has none is refused by name' '
    run 2 doze completion csh && empty out && lines err 1 && has err csh && has err "bash, zsh or fish"
'

test_done
