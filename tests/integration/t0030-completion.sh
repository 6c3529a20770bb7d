#!/bin/bash
# Completion, as bash itself would ask for it.
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
    complete_line doze doctor -- | answers "--data= --help --json --quiet" &&
    complete_line doze doctor --json --q | answers --quiet &&
    complete_line doze --v | answers --version &&
    complete_line doze -- | answers "--help --json --quiet --version" &&
    complete_line doze --json doctor --q | answers --quiet &&
    complete_line doze -q doct | answers doctor &&
    complete_line doze nonsense --j | answers ""
'

test_that 'operands that are words are completed, and help knows the commands' '
    complete_line doze completion "" | answers bash &&
    complete_line doze help doc | answers doctor &&
    complete_line doze help --a | answers --all
'

test_that 'behind an = the shell completes file names' '
    complete_line doze doctor --data = /tm | answers ""
'

test_that 'only bash has one' '
    run 2 doze completion fish && empty out && lines err 1 && has err "fish"
'

test_done
