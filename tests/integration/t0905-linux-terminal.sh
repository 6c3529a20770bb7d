#!/bin/bash
# Programs of Debian that draw on a terminal, in a sandbox and on this machine: bash with job
# control, vim, less. tmux is the terminal, and its screen is compared.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux.sh"

export TMUX_TMPDIR=$LIB_SCRATCH
end_servers() {
    local socket
    for socket in "$TMUX_TMPDIR"/tmux-*/*; do
        tmux -S "$socket" kill-server 2>/dev/null
    done
}
trap 'end_servers; rm -rf "$LIB_SCRATCH"' EXIT

# at_screen TEXT: wait until a line of the screen has it
at_screen() {
    local i
    for ((i = 0; i < 100; i++)); do
        tmux -L "$server" capture-pane -p -t t >screen 2>/dev/null && grep -qF -e "$1" screen && return 0
        sleep 0.1
    done
    echo "\"$1\" did not appear:"
    cat screen
    return 1
}
keys() { tmux -L "$server" send-keys -t t "$@"; }

# play HOST|SANDBOX STEPS COMMAND...: STEPS is a function that types; it leaves the screens that it
# wants to compare in the file screens
play() {
    local on=$1 steps=$2 shell
    shift 2
    server=$on-$steps # a server of its own: one that is ending would be given the next session
    rm -f screens
    if [ "$on" = host ] || [ "${DOZE_LINUX_ON:-}" = native ]; then
        rm -rf host && cp -r "$LIB_ROOT/tests/linux" host
        shell="cd host && exec env -i ${LINUX_ENV[*]} HOME=/root $*"
    else
        shell="exec doze run -it --image debian --copy $LIB_ROOT/tests/linux:/work -w /work"
        shell+="$(printf ' -e %s' "${LINUX_ENV[@]}") -e HOME=/root -- $*"
    fi
    tmux -L "$server" -f /dev/null new-session -d -s t -x 80 -y 24 "$shell" || return
    "$steps"
    local status=$?
    tmux -L "$server" kill-server 2>/dev/null
    return $status
}
shot() { sed 's/ *$//' screen >>screens; }
# the same STEPS in both
both() {
    [ -z "$LINUX_SKIP" ] || skip "$LINUX_SKIP"
    play host "$@" && mv screens host.screens && play sandbox "$@" &&
        diff <(unnumbered host.screens) <(unnumbered screens)
}

jobs_of_a_shell() {
    at_screen 'bash-5' && keys 'PS1="ready> "; clear' Enter && at_screen 'ready>' &&
        keys 'sleep 1000' Enter && at_screen 'sleep 1000' && keys C-z && at_screen 'Stopped' &&
        keys 'bg' Enter && at_screen 'sleep 1000 &' && keys 'jobs' Enter && at_screen 'Running' &&
        keys 'clear; fg' Enter && at_screen 'sleep 1000' && sleep 0.2 && keys C-c && at_screen '^C' &&
        keys 'bash reader.bash' Enter && at_screen 'begun' && keys 'a line' Enter && at_screen 'got a line' &&
        keys C-z && at_screen '[1]+  Stopped                 bash reader.bash' &&
        keys 'fg' Enter && at_screen 'resumed' && keys 'and more' Enter && at_screen 'got and more' &&
        keys C-d && at_screen 'ended' &&
        keys 'stty size; tty >/dev/null && echo is a" "tty' Enter &&
        at_screen 'is a tty' && sleep 0.2 && at_screen 'is a tty' && shot &&
        keys 'clear; echo abcXd' BSpace BSpace 'Z' C-a C-k 'echo $((6*7))' Enter && at_screen '42' && sleep 0.2 &&
        at_screen '42' && shot &&
        keys 'exit' Enter
}
an_editor() {
    at_screen 'Perl: fork' && shot && keys ggdG && keys 'ione line' Enter 'another' Escape &&
        at_screen 'another' && keys 'yyp' && keys ':%s/o/0/g' Enter && at_screen '0ne line' && shot &&
        keys ':!expr 6 \* 7' Enter && at_screen 'Press ENTER' && keys Enter && at_screen '0ne line' &&
        keys ':w new.txt' Enter && at_screen 'written' && keys ':q!' Enter && at_screen 'ended' && shot
}
a_pager() {
    at_screen 'Perl: fork' && shot && keys G && at_screen '(END)' && shot && keys g && at_screen 'Perl: fork' && shot &&
        keys q
}
export -f at_screen keys play shot both jobs_of_a_shell an_editor a_pager unnumbered

test_that 'bash: jobs that stop, continue and are interrupted; editing of a line' '
    both jobs_of_a_shell bash --norc
'
test_that 'vim: draws, edits, runs a child, writes' '
    both an_editor "sh -c \"\\\$(command -v vim.tiny || echo vi) -u NONE -N words.pl; cat new.txt; echo ended; sleep 100\""
'
test_that 'less: pages, searches, ends' '
    both a_pager "sh -c \"LESS= less words.pl; echo left; sleep 100\""
'

test_done
