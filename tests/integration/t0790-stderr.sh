#!/bin/bash
# Standard error of cells, zygotes, the seed and calls: lines of the log that say whose they are, and
# no descriptor of the daemon's log or of a terminal. Needs `make base` and python3.
# shellcheck disable=SC2016,SC2034 # $ inside of tests
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
command -v python3 >/dev/null || { echo '1..0 # SKIP there is no python3'; exit 0; }

children() { pgrep -P "$(cat daemon.pid)"; }
named() { for p in $(children); do [ "$(tr '\0' '\n' <"/proc/$p/cmdline" | head -1)" != "$1" ] || echo "$p"; done; }
cell_id() { sed -n "s/.*event=cell_up .*sandbox_id=$1 .*pid=//p" daemon.log | tail -1; }
say() { # PID COUNT: standard input, as that process
    python3 "$LIB_ROOT/tests/lib/say_as.py" "$@" >said || { grep -q ^skip said && skip "pidfd_getfd is not permitted here"; cat said; return 1; }
}
until_logged() { # PATTERN
    for _ in $(seq 200); do
        grep -qE -- "$1" daemon.log && return 0
        read -rt 0.05 <> <(:) || :
    done
    echo "not in the log: $1"
    tail -5 daemon.log
    return 1
}
# Nothing of these processes leads to a terminal or to the file NAME.
apart() { # NAME PID...
    local name=$1 n=0
    shift
    for p in "$@"; do
        ls -l "/proc/$p/fd" >fds 2>/dev/null || continue
        n=$((n + 1))
        ! grep -E "/dev/(pts|tty)|$name" fds || { tr '\0' ' ' <"/proc/$p/cmdline"; return 1; }
        grep -qE ' 2 -> socket:' fds || { cat fds; return 1; }
    done
    [ "$n" -gt 0 ]
}

start || exit 1
test_that 'two sandboxes' '
    for n in a b; do
        api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"$n\"}" && grep -oE "sbx_[a-z0-9]+" out | head -1 >id_$n &&
        api 200 POST "$(s /$n/exec)" "{\"cmd\":[\"true\"]}" || exit 1
    done
    [ "$(cell_id "$(cat id_a)")" != "$(cell_id "$(cat id_b)")" ]
'
test_that 'no seed, zygote or cell holds the log of the daemon' '
    [ "$(children | wc -l)" -gt 4 ] && apart daemon.log $(children)
'
test_that 'a line of a cell is escaped, and tagged with its own sandbox' '
    printf "time=FORGED level=error event=forged sandbox_id=%s\\n\\033]0;PWN\\007\\n" "$(cat id_b)" >text &&
    say "$(cell_id "$(cat id_a)")" <text &&
    until_logged "event=process_stderr process=cell sandbox_id=$(cat id_a) text=\"time=FORGED .*sandbox_id=$(cat id_b)\"$" &&
    until_logged "sandbox_id=$(cat id_a) text=\"..001b.0;PWN..0007\"$" && lacks daemon.log "$(printf "\\033")" && ! grep "^time=FORGED" daemon.log
'
test_that 'lines of a zygote and of the seed name them' '
    echo "from the seed" >text && say "$(named doze-seed)" <text && until_logged "event=process_stderr process=seed text=\"from the seed\"$" &&
    echo "from a zygote" >text && for z in $(named doze-zygote); do grep -q "^PPid" "/proc/$z/status" && say "$z" <text; done &&
    until_logged "event=process_stderr process=zygote text=\"from a zygote\"$" && until_logged "process=zygote image=[0-9a-f]{64} text=\"from a zygote\"$"
'
test_that 'of a flood some lines are logged and the rest is counted; others are served and heard' '
    : >text && for i in $(seq 100); do echo "flood $i" >>text; done && say "$(cell_id "$(cat id_a)")" 200 <text &&
    api 200 POST "$(s /b/exec)" "{\"cmd\":[\"true\"]}" && echo "still heard" | say "$(cell_id "$(cat id_b)")" &&
    until_logged "sandbox_id=$(cat id_b) text=\"still heard\"$" && api 200 POST "$(s /a/exec)" "{\"cmd\":[\"true\"]}" &&
    [ "$(grep -c "text=\"flood" daemon.log)" -lt 1000 ] && api 200 POST "$(s /a/suspend)" &&
    until_logged "event=process_stderr_dropped process=cell sandbox_id=$(cat id_a) count=1[89][0-9]{3}$"
'
test_that 'it ends clean' 'stop'

# A daemon, and `doze run`, on a terminal.
cat >terminal.py <<'PY'
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
open(sys.argv[1], "w").write(str(pid))
with open("screen", "wb") as f:
    while True:
        try:
            f.write(os.read(fd, 4096))
            f.flush()
        except OSError:
            break
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
PY
test_that 'nobody holds the terminal of a daemon' '
    rm -f daemon.pid && { python3 terminal.py daemon.pid "$DOZE" daemon --log-level debug & } && t=$! &&
    for _ in $(seq 200); do
        if [ -S "$SOCK" ] && curl -sf --unix-socket "$SOCK" http://d/readyz >/dev/null; then break; fi
        read -rt 0.05 <> <(:) || :
    done
    api 200 POST "$(s /a/exec)" "{\"cmd\":[\"true\"]}" && apart daemon.log $(children) && echo "on the screen" >text &&
    say "$(named doze-seed)" <text && for _ in $(seq 200); do
        if grep -q "process=seed text=\"on the screen\"" screen; then break; fi
        read -rt 0.05 <> <(:) || :
    done
    grep "process=seed text=\"on the screen\"" screen && stop && wait $t
'
test_that 'the cell of doze run does not hold the terminal, and its words are shown escaped' '
    { python3 terminal.py run.pid "$DOZE" run -- sh -c "echo up; sleep 60" & } && t=$! &&
    for _ in $(seq 200); do
        if grep -q ^up screen 2>/dev/null; then break; fi
        read -rt 0.05 <> <(:) || :
    done
    cell=$(pgrep -P "$(cat run.pid)") && apart nothing "$cell" && printf "a \\033[31mcell\\n" | say "$cell" && for _ in $(seq 200); do
        if grep -q "text=\"a ..001b.31mcell\"" screen; then break; fi
        read -rt 0.05 <> <(:) || :
    done
    grep "event=process_stderr process=cell text=\"a ..001b.31mcell\"" screen && kill "$(cat run.pid)" && { wait $t || :; }
'
test_done
