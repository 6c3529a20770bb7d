#!/bin/bash
# doze exec --trace, and "trace" of the API: the system calls of one command of a running sandbox.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
start
line() { grep -qE "^ +[0-9]+ $1" "$2"; } # PATTERN FILE: a line of a trace

linux_test 'calls go to standard error, output does not change' '
    created --name a && run 0 doze exec --trace a -- bash -c "/bin/echo hello; echo own >&2" && [ "$(cat out)" = hello ] &&
    line "execve\(\"/bin/echo\", \[\"/bin/echo\", \"hello\"\], .*\) = 0$" err && line "write\(1, \"hello\\\\n\", 6\) = 6$" err &&
    line "write\(1, \"own\\\\n\", 4\) = 4$" err && grep -qx own err && line "\+\+\+ exited with 0 \+\+\+$" err
'
linux_test 'or to a file' '
    run 3 doze exec --trace=lines a -- bash -c "echo own >&2; exit 3" && [ "$(cat err)" = own ] && line "exit_group\(3\) = \?$" lines
'
linux_test 'only calls of this command and its children are traced' '
    doze exec -d a -- bash -c "while :; do /bin/ls /etc; done" >other && run 0 doze exec --trace=lines a -- bash -c "/bin/sleep 0.2; :" &&
    line "clock_nanosleep" lines && ! grep -q "/etc\"" lines && run 0 doze exec a -- pkill ls || true
    run 0 doze kill --signal KILL a "$(cat other)" && ! grep -q "/bin/ls" lines
'
linux_test 'the API: a field of the answer, an event of the stream' '
    api 200 POST "$(s "/a/exec")" "{\"cmd\":[\"/bin/echo\",\"x\"],\"trace\":true}" && has out "\"stdout\":\"x\\n\"" && has out "\"stderr\":\"\"" &&
    python3 -c "import json; t = json.load(open(\"out\"))[\"trace\"]; assert \"write(1, \\\"x\" in t and t.isascii() and t.endswith(\"+++\\n\"), t" &&
    api 200 POST "$(s "/a/exec")" "{\"cmd\":[\"/bin/echo\",\"x\"],\"trace\":false}" && lacks out trace &&
    curl -sN --unix-socket "$SOCK" -H "Accept: text/event-stream" -H "Content-Type: application/json" -d "{\"cmd\":[\"/bin/true\"],\"trace\":true}" "http://d$(s "/a/exec")" >sse &&
    grep -q "^event: trace" sse && ! grep -q "^event: std" sse && grep -q "exited with 0" sse
'
linux_test '--json; --tty keeps the screen apart' '
    run 0 doze exec --json --trace a -- /bin/echo x && python3 -c "import json; r = json.load(open(\"out\")); assert r[\"stdout\"] == \"x\\n\" and \"write(1\" in r[\"trace\"]" &&
    run 0 doze exec -t --trace a -- /bin/echo x && [ "$(tr -d "\r" <out)" = x ] && line "write\(1, \"x" err
'
linux_test 'bytes that a terminal would obey are not printed' '
    run 2 doze exec --trace a -- /bin/ls "$(printf "/\033]0;title\007\302\233")" && grep " stat" err >stats && grep -q "033\]0;title" stats && ! LC_ALL=C grep -q "[^ -~]" stats
'
linux_test 'in the background: logs show the lines, also of a command that slept meanwhile' '
    run 0 doze exec -d --trace a -- bash -c "read -t 1000 <>/dev/tcp/none || mkfifo /tmp/f; read x </tmp/f; exec /bin/echo got \$x" && exe=$(cat out) && export exe &&
    run 0 doze exec a -- bash -c "until [ -p /tmp/f ]; do sleep 0.05; done" && run 0 doze suspend a && run 0 doze exec a -- bash -c "echo woken >/tmp/f" && run 0 doze attach a "$exe" &&
    has out "got woken" && line "mkfifo|mknod" err && line "execve\(\"/bin/echo\"" err && line "write\(1, \"got woken" err && run 0 doze logs a "$exe" && has out "got woken" && line "write\(1, \"got woken" err
'
linux_test 'a client that does not read stops its own command only, and no line is missing' '
    mkfifo pipe && { doze exec --trace a -- python3 -c "import os
for i in range(30000): os.getppid()" 2>pipe & } && exec 9<pipe && for i in 1 2 3; do run 0 doze exec a -- echo "still $i" && has out "still $i" || exit 1; done &&
    cat <&9 >all && wait $! && [ "$(grep -c " getppid() = " all)" = 30000 ] && lacks all "are missing"
'
linux_test 'options that exclude each other' '
    run 2 doze exec -d --trace=f a -- true && has err "doze logs" && run 2 doze exec --json --trace=f a -- true && [ ! -e f ]
'
stop
test_done
