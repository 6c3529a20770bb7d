#!/bin/bash
# Help in all its spellings, and that it is the same everywhere.
. "$(dirname "$0")/lib.sh"

# Every command, as `doze help` lists it.
commands() {
    doze help | sed -n 's/^  \([a-z][a-z ]*[a-z]\)  .*/\1/p'
}

test_that 'help lists every command with a line about it' '
    run 0 doze help && empty err && has out "usage: doze COMMAND" &&
    commands >names && [ "$(wc -l <names)" -ge 3 ] &&
    for name in doctor completion help; do grep -qx "$name" names || exit 1; done
'

test_that 'help, --help and -h print the same list' '
    doze help >first && doze --help >second && cmp first second && doze -h >second && cmp first second
'

test_that 'help COMMAND, COMMAND --help and COMMAND -h print the same' '
    commands >names &&
    while read -r name; do
        # shellcheck disable=SC2086 # a name may have two words
        doze help $name >first && doze $name --help >second && cmp first second &&
            doze $name -h >second && cmp first second &&
            has first "usage: doze $name" || exit 1
    done <names
'

test_that 'the set-up tells what it would do when it is asked' '
    run 0 "$LIB_ROOT/scripts/setup" --help && has out "scripts/packages" && run 2 "$LIB_ROOT/scripts/setup" --hlep && has err "no option"
'
test_that '--help wins over missing operands' '
    run 0 doze completion --help && has out "usage: doze completion SHELL"
'

test_that 'help --all explains every command' '
    commands >names && run 0 doze help --all && empty err &&
    while read -r name; do has out "doze $name:" || exit 1; done <names
'

test_that 'help of what is no command: one line, exit 2' '
    run 2 doze help docter && empty out && lines err 1 && has err "did you mean \"doctor\"?" &&
    run 2 doze help doctor more && lines err 1
'

test_that 'no line of any help is wider than a terminal' '
    { doze help; doze help --all; } | awk "length > 79 { print; bad = 1 } END { exit bad }"
'

test_that 'nothing is coloured in a pipe, whatever TERM says' '
    TERM=xterm-256color doze help --all >out && ! grep -q "$(printf "\033")" out
'

# On a terminal (script(1) gives it one): coloured, unless somebody objects.
on_terminal() {
    command -v script >/dev/null || skip "no script(1) for a terminal"
    script -qec "$1" /dev/null </dev/null >typed
}

test_that 'on a terminal there is colour, but not with NO_COLOR or on a dumb one' '
    on_terminal "TERM=xterm doze help" && grep -q "$(printf "\033")\[1m" typed &&
    on_terminal "NO_COLOR=1 TERM=xterm doze help" && ! grep -q "$(printf "\033")" typed &&
    on_terminal "NO_COLOR= TERM=xterm doze help" && grep -q "$(printf "\033")" typed &&
    on_terminal "TERM=dumb doze help" && ! grep -q "$(printf "\033")" typed &&
    on_terminal "unset TERM; doze help" && ! grep -q "$(printf "\033")" typed
'

test_done
