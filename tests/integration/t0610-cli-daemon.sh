#!/bin/bash
# The commands against the daemon itself, which they start.
# shellcheck disable=SC2016 # $ inside of tests
. "$(dirname "$0")/lib.sh"
images=$LIB_ROOT/build/data/images
[ -d "$images" ] || { echo "Bail out! $images is not there: run make test-images first"; exit 1; }
export DOZE_DATA=$PWD/data
mkdir data && ln -s "$images" data/images
stop_daemon() { # SIGNAL
    local pid
    pid=$(tr -dc 0-9 <data/daemon.lock) && kill "-$1" "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
}
trap 'stop_daemon KILL 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT

test_that 'one daemon is started by many commands at once, which say so once' '
    for i in 1 2 3 4 5; do doze ls >ls.$i 2>err.$i & pids="${pids:-} $!"; done ; for p in $pids; do wait $p || exit 1; done
    cat err.* >all && lines all 1 && has all "no daemon was running: started one" &&
    [ "$(grep -c daemon_ready data/daemon.log)" -eq 1 ] && run 0 doze ls -q && empty err
'
test_that 'it outlives the command, in a session of its own' '
    pid=$(tr -dc 0-9 <data/daemon.lock) && [ "$(ps -o sid= -p "$pid" | tr -d " ")" = "$pid" ] &&
    [ "$(readlink /proc/$pid/fd/2)" = "$DOZE_DATA/daemon.log" ] && [ "$(readlink /proc/$pid/fd/0)" = /dev/null ]
'
test_that 'a sandbox is made, used by name and by the beginning of its id' '
    run 0 doze create base -n web -l a=b && id=$(cat out) && run 0 doze exec web -- echo hello && has out hello &&
    run 3 doze exec "${id%????}" -- sh -c "echo out; echo err >&2; exit 3" && has out out && has err err &&
    run 143 doze exec web -- sh -c "kill \$\$" && run 127 doze exec web -- nosuch && run 126 doze exec web -- /etc/passwd &&
    run 125 doze exec nobody -- ls && run 0 doze ls -q --label a=b && [ "$(cat out)" = "$id" ] && run 1 doze create base -n web
'
test_that 'standard input, and much of it' '
    seq 300000 >in && run 0 doze exec -i web -- cat <in && cmp in out && run 0 doze exec -i web -- wc -l <in && has out 300000 &&
    run 0 doze exec -e A=1 -w /tmp -i web -- sh -c "echo \$A; pwd; cat" </dev/null && [ "$(cat out)" = "$(printf "1\n/tmp")" ]
'
test_that 'it sleeps and wakes; a command in it goes on' '
    run 0 doze exec -d web -- sh -c "n=0; while sleep 1; do n=\$((n+1)); echo n\$n; done" && exe=$(cat out) &&
    run 0 doze suspend web && has out suspended && run 0 doze ps web && has out "$exe" && run 0 doze wake web && has out awake &&
    for _ in $(seq 100); do run 0 doze logs web "$exe"; grep -q n3 out && break; sleep 0.1; done ; has out n3 && [ "$(head -n 1 out)" = n1 ] &&
    run 0 doze kill web "$exe" -s KILL && run 137 doze attach --no-stdin web "$exe"
'
test_that 'a daemon that dies is started again under a command, which goes on' '
    { doze exec web -- sh -c "echo one; sleep 2; echo two" >out 2>err; echo "status $?" >>out; } & job=$! ;
    for _ in $(seq 100); do grep -q one out && break; sleep 0.05; done ; stop_daemon KILL && wait $job ;
    [ "$(cat out)" = "$(printf "one\ntwo\nstatus 0")" ] || { cat out err; exit 1; }
'
test_that 'files, both ways, also while it sleeps' '
    run 0 doze suspend web && seq 50000 >big && chmod 750 big && run 0 doze cp big web:/workspace/ && run 0 doze cp web:/workspace/big copy &&
    cmp big copy && [ "$(stat -c %a copy)" = 750 ] && mkdir -p tree/sub && echo a >tree/sub/a && ln -s sub/a tree/l &&
    run 0 doze cp -r tree web:/workspace/tree && run 0 doze cp -r web:/workspace/tree back && diff -r tree back && [ "$(readlink back/l)" = sub/a ] &&
    run 0 doze cat web:/workspace/tree/sub/a && has out a && run 0 doze files web:/workspace && has out "big   file" &&
    run 0 doze sql web "select count(*) from vfs" && run 0 doze files mv web:/workspace/big /workspace/b2 &&
    run 0 doze files rm web:/workspace/b2 && run 1 doze cat web:/workspace/b2 && has err "b2" && run 0 doze files mkdir web:/workspace/d/e &&
    run 0 doze get --json web && has out "\"state\":\"suspended\""
'
test_that 'a terminal: keys, size, Ctrl-C, a shell that leaves' '
    command -v tmux >/dev/null || skip "no tmux"
    T=cli$$
    tmux -L $T -f /dev/null new-session -d -x 90 -y 20 "doze shell web; echo status \$? >left; sleep 1" &&
    seen() { for _ in $(seq 200); do tmux -L $T capture-pane -p | grep -q -e "$1" && return 0; sleep 0.05; done; tmux -L $T capture-pane -p; return 1; } &&
    tmux -L $T send-keys "echo at \$((6*7))" Enter && seen "at 42" && tmux -L $T send-keys "stty size" Enter && seen "^20 90" &&
    tmux -L $T resize-window -x 70 -y 15 && sleep 0.3 && tmux -L $T send-keys "stty size" Enter && seen "^15 70" &&
    tmux -L $T send-keys "sleep 100" Enter && sleep 0.3 && tmux -L $T send-keys C-c && tmux -L $T send-keys "echo st \$?" Enter && seen "st 130" &&
    run 0 doze suspend web && tmux -L $T send-keys "echo again" Enter && seen "^again" && tmux -L $T send-keys "exit 5" Enter &&
    for _ in $(seq 100); do [ -s left ] && break; sleep 0.05; done ; has left "status 5"
'
test_that 'snapshot, fork, share, clone: the files of that instant' '
    run 0 doze exec web -- sh -c "echo v1 >/workspace/v" && run 0 doze snapshot web -n s && snap=$(cat out) &&
    run 0 doze fork web && frk=$(cat out) && run 0 doze fork web --count 2 && lines out 2 && forks=$(cat out) &&
    run 0 doze exec web -- sh -c "echo v2 >/workspace/v" && run 0 doze create --snapshot "$snap" -n old && run 0 doze exec old -- cat /workspace/v && has out v1 &&
    for f in $forks; do run 0 doze exec "$f" -- cat /workspace/v && has out v1 && run 0 doze rm -qf "$f" || exit 1; done &&
    run 0 doze attach "$frk" -n late && run 0 doze exec late -- cat /workspace/v && has out v1 &&
    run 2 doze share web && has err "doze ref web" && run 0 doze ref web && ref=$(cat out) && run 0 doze attach "$ref" --json && has out "\"name\":\"web\"" &&
    run 1 doze clone web && has err "suspend it" && run 0 doze suspend web && run 0 doze clone web -n copy && run 0 doze exec copy -- cat /workspace/v && has out v2 &&
    run 0 doze suspend web || true ; run 0 doze share web -o public.doze && run 0 doze disk cat public.doze /workspace/v && has out v2 &&
    run 0 doze rm -qf old late copy
'
test_that 'freeze, archive and back; what must not be says why; rm' '
    run 0 doze wake web && run 0 doze suspend web && run 0 doze freeze web && has out frozen && run 1 doze suspend web && has err frozen && run 0 doze prefetch web &&
    run 0 doze archive web && run 125 doze exec web -- true && has err "revive it first" && run 0 doze revive web && has out active &&
    run 0 doze exec web -- cat /workspace/tree/sub/a && has out a && run 0 doze hold web --for 1h && run 0 doze hold web --release &&
    run 0 doze events web && has out frozen && run 1 doze rm web && run 0 doze rm -f web && run 0 doze ls -q && empty out
'
test_done
