#!/bin/bash
# Sandboxes of kind linux through a daemon, as a user works with them: commands, terminals, files,
# SQL, watches, suspends, snapshots, forks and figures. Needs `make base`, `make test-images`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
# for until_true; tests set id and x, a command
id='' x='' was=0
none_of() { doze exec w -- ps -eo args >out && lacks out "$1" >/dev/null; } # ARGS
printed() { doze logs w "$id" >out && has out "$1" >/dev/null; }
count_of() { doze exec "$1" -- bash -c 'read -r n </workspace/n; echo "${n:-0}"'; } # it may be empty just now
more_in() { [ "$(count_of "$1")" -gt "$was" ]; } # SANDBOX
goes_on() { was=$(count_of "$1") && until_true more_in "$1"; }
shows() { doze logs w "$x" >out && has out "$1" >/dev/null; }
busy() { doze top --json >out && [ "$(cpu_ms w)" -gt 1000 ]; }
typed() { # FORMAT: typed at the terminal of the command $x
    # shellcheck disable=SC2059 # the escapes in it
    printf "$1" | curl -sS --unix-socket "$SOCK" --data-binary @- "http://d$(s "/w/exec/$x/stdin")" >/dev/null
}
start

linux_test 'a sandbox has the kind of its image, and keeps memory like others' '
    run 0 doze create -q --name w debian && api 200 GET "$(s /w)" && has out "\"kind\":\"linux\"" && has out "\"keep\":\"memory\"" &&
    has out "\"mode\":\"activity\"" && has out "\"hibernate\":true" && has out "\"fork_memory\":true" && has out "\"pty\":true" &&
    run 1 doze create --kind wasm debian && has err "is of kind linux, not wasm" && run 1 doze create --kind linux base && has err "of kind wasm"
'
linux_test 'exit status, signals, output of both streams, bytes' '
    run 7 doze exec w -- bash -c "echo out; echo err >&2; exit 7" && [ "$(cat out)" = out ] && [ "$(cat err)" = err ] &&
    run 139 doze exec w -- bash -c "kill -SEGV \$\$" && run 127 doze exec w -- nosuch && has err "command not found" &&
    run 126 doze exec w -- /etc/passwd && has err "Permission denied" &&
    run 3 doze exec --json w -- bash -c "printf \"\\377\"; exit 3" && [ "$(field stdout_base64)" = /w== ] && [ "$(field exit_code)" = 3 ] &&
    head -c 3000000 /dev/urandom >bytes && run 0 doze exec -i w -- bash -c "cat >b; cat b" <bytes && cmp bytes out
'
linux_test 'environment, user and working directory' '
    run 1 doze exec -e A=b -w /tmp -u user w -- bash -c "echo \$A \$PWD \$HOME; id -un; touch /root/x" &&
    [ "$(sed -n 1p out)" = "b /tmp /home/user" ] &&
    [ "$(sed -n 2p out)" = user ] && has err "Permission denied" && run 0 doze exec -u 1234:55 w -- id && has out "uid=1234 gid=55" &&
    run 125 doze exec -u nosuch w -- id && has err "no user nosuch" && run 125 doze exec -w /nodir w -- pwd && has err "No such file" &&
    created --name e -e GREETING=hello && run 0 doze exec e -- bash -c "echo \$GREETING; pwd" && [ "$(cat out)" = "hello
/workspace" ] && run 0 doze rm --force e
'
linux_test 'a timeout kills the command with its children, and one that ignores signals' '
    run 124 doze exec --timeout 500ms w -- bash -c "trap \"\" TERM INT; while :; do :; done" && has err "time limit" &&
    run 124 doze exec --timeout 500ms --json w -- bash -c "sleep 1000 & wait" && [ "$(field timed_out)" = True ] && [ "$(field signal)" = KILL ] &&
    until_true none_of "sleep 1000"
'
linux_test 'kill sends a signal, and its handler decides; logs and attach show the output' '
    id=$(doze exec -d w -- bash -c "trap \"echo term; exit 5\" TERM; echo up; while :; do sleep 0.05; done") &&
    until_true printed up && doze ps w >ps && has ps "$id" && has ps running && run 0 doze kill w "$id" && run 5 doze attach w "$id" && [ "$(cat out)" = "up
term" ] && run 0 doze logs w "$id" && has out term && doze ps -a w >ps && grep -q "$id .*ended *5" ps && run 0 doze ps w && lacks out "$id"
'
linux_test 'Ctrl-C at the client reaches the command, and doze ends with its status' '
    env --default-signal=INT doze exec w -- bash -c "trap \"echo caught; exit 9\" INT; echo up; while :; do sleep 0.05; done" >said 2>err &
    pid=$! && until_true grep -q up said && kill -INT "$pid" && { wait "$pid" || status=$?; } && [ "$status" = 9 ] && has said caught
'
linux_test 'what a command sends beyond max_output is cut off, and the answer says so' '
    api 200 POST "$(s /w/exec)" "{\"shell\":\"seq 100000; echo end >&2\",\"max_output\":1000}" && has out "\"truncated\":true" && has out "\"exit_code\":0" &&
    [ "$(field stdout | wc -c)" = 1001 ] && [ "$(field stderr)" = end ]
'
linux_test 'a shell on a terminal: size, job control, Ctrl-C, end of file' '
    run 3 "$LIB_ROOT/tests/integration/terminal.py" doze shell w <<-"END"
	(b"", b"# ")
	(b"stty size; tty\n", b"24 80\r\n/dev/pts/")
	(b"bash -c \"echo up $((1)); exec sleep 1000\"\n", b"up 1")
	(b"\x03", b"^C")
	(b"echo status $?\n", b"status 130")
	(b"bash -c \"echo up $((2)); exec sleep 2000\"\n", b"up 2")
	(b"\x1a", b"Stopped")
	(b"bash -c \"echo up $((3)); exec sleep 3000\" &\n", b"up 3")
	(b"jobs\n", b"Running")
	(b"kill %2; kill -9 %1; wait; echo none $((4))\n", b"none 4")
	(b"bash -c \"echo up $((5)); cat; echo got $((6))\"\n", b"up 5")
	(b"a b\x04\x04", b"a ba bgot 6")
	(b"exit 3\n", b"exit")
	END
'
linux_test 'a terminal by the API: its size, its resize, stdin, a stopped job' '
    api 201 POST "$(s /w/exec)" "{\"cmd\":[\"bash\",\"-i\"],\"tty\":{\"cols\":91,\"rows\":33},\"stdin\":true,\"background\":true}" && x=$(field exec_id) &&
    typed "stty size\n" && until_true shows "33 91" && typed "bash -c \"echo up \$((5)); exec sleep 1000\"\n" && until_true shows "up 5" && typed "\032" && until_true shows Stopped &&
    api 204 POST "$(s "/w/exec/$x/resize")" "{\"cols\":50,\"rows\":20}" && typed "stty size; kill %%1; wait\n" && until_true shows "20 50" &&
    typed "exit 4\n" && api 200 POST "$(s "/w/exec/$x/wait")" && has out "\"exit_code\":4"
'
linux_test 'files go in and out, with their modes and links' '
    mkdir -p tree/sub && echo one >tree/sub/a && chmod 750 tree/sub/a && ln -sf a tree/sub/l && run 0 doze cp -r tree w:/workspace/ &&
    run 0 doze exec w -- bash -c "stat -c %a tree/sub/a; readlink tree/sub/l; mkdir d; echo z >d/z; mkfifo d/fifo; rm d/fifo" && [ "$(cat out)" = "750
a" ] && run 0 doze cp -r w:/workspace/d got && [ "$(cat got/z)" = z ] && run 0 doze cat w:/workspace/d/z && [ "$(cat out)" = z ] &&
    run 0 doze files w:/workspace && has out tree && run 0 doze files mv w:/workspace/d/z /workspace/y && run 0 doze exec w -- cat y && [ "$(cat out)" = z ] &&
    run 0 doze files rm -r w:/workspace/tree && run 2 doze exec w -- ls tree && run 0 doze cp w:/usr/bin/bash bash && cmp <(sha256sum <bash) <(doze exec w -- sh -c "sha256sum </bin/bash")
'
linux_test 'SQL sees what programs have written, by calls and by mappings' '
    run 0 doze exec w -- python3 -c "
import mmap
with open(\"/workspace/called\", \"w\") as f: f.write(\"text\")
with open(\"/workspace/mapped\", \"w+b\") as f:
    f.truncate(8)
    mmap.mmap(f.fileno(), 8)[:] = b\"by a map\"
" && run 0 doze sql w "select path, cast(content as text) from vfs where path in ('"'"'called'"'"', '"'"'mapped'"'"') order by 1" &&
    [ "$(tail -n 2 out)" = "called	text
mapped	by a map" ]
'
linux_test 'files that a running program has mapped are read as it sees them, large ones too' '
    doze exec -d w -- python3 -c "
import mmap, time
f = open(\"/workspace/large\", \"w+b\")
f.truncate(16 << 20)
m = mmap.mmap(f.fileno(), 0)
m[15 << 20:(15 << 20) + 4] = b\"seen\"
open(\"/workspace/mapped-now\", \"w\")
time.sleep(1000)" >id && until_true doze exec w -- test -e /workspace/mapped-now && doze cp w:/workspace/large got-large && [ "$(tail -c +$(((15 << 20) + 1)) got-large | head -c 4)" = seen ] &&
    doze snapshot w >snap && doze create -q --snapshot "$(cat snap)" --name s && doze cat s:/workspace/large | tail -c +$(((15 << 20) + 1)) | head -c 4 >got4 && [ "$(cat got4)" = seen ] &&
    run 0 doze kill -s KILL w "$(cat id)" && run 0 doze rm --force s
'
linux_test 'a watch reports what programs do' '
    { curl -sSN --max-time 30 --unix-socket "$SOCK" "http://d$(s "/w/files/watch?path=/workspace&recursive=true")" >sse & } && curl=$! && until_true test -s sse &&
    run 0 doze exec w -- bash -c "mkdir seen; echo x >seen/a; mv seen/a seen/b; rm seen/b" && until_true grep -q moved_to sse &&
    has sse "/workspace/seen/b" && until_true grep -q "event: remove" sse; kill "$curl"
'
linux_test 'a sandbox at rest uses no processor, whether a program ran in it or not' '
    created --name fresh && run 0 doze exec w -- true && a=$(cpu_ms fresh) b=$(cpu_ms w) && sleep 2 &&
    [ $(($(cpu_ms fresh) - a)) -lt 500 ] && [ $(($(cpu_ms w) - b)) -lt 500 ]
'
linux_test 'top, ps, stats, metrics and last_active_at count native programs' '
    api 200 GET "$(s /w)" && used=$(field last_active_at) && sleep 1.1 && doze exec -d w -- python3 -c "while True: pass" >id && until_true busy &&
    doze ps w >ps && has ps "python3 -c while True: pass" && api 200 GET "$(s /w)" && [[ "$(field last_active_at)" > "$used" ]] &&
    api 200 GET /metrics && has out "doze_execs_total" && run 0 doze kill -s KILL w "$(cat id)" && until_true none_of "while True"
'
linux_test 'an idle time that was asked for holds: a program that computes is not idle, one that sleeps is' '
    created --name busy --idle 1s --keep files && created --name lazy --idle 1s --keep files && doze exec -d busy -- python3 -c "while True: pass" >id &&
    doze exec -d lazy -- python3 -c "import time; open(\"/workspace/f\", \"w\").write(\"kept\"); time.sleep(1000)" >lazy.id &&
    until_state lazy suspended && sleep 2 && until_state busy active && run 0 doze exec lazy -- cat /workspace/f && [ "$(cat out)" = kept ] &&
    run 0 doze ps -a lazy && grep -q "$(cat lazy.id) .*lost" out && run 0 doze kill -s KILL busy "$(cat id)" && until_state busy suspended
'
linux_test 'keep=files: a suspend keeps files, also of shared mappings, and not processes' '
    created --name f --keep files && doze exec -d f -- python3 -c "
import mmap
f = open(\"/workspace/m\", \"w+b\")
f.truncate(4096)
m = mmap.mmap(f.fileno(), 0)
m[0:5] = b\"MAPPS\"
open(\"/workspace/ready\", \"w\")
while True: pass" >id && until_true doze exec f -- test -e /workspace/ready && run 0 doze suspend f && until_state f suspended &&
    run 0 doze exec f -- head -c 5 /workspace/m && [ "$(cat out)" = MAPPS ] && doze ps -a f >ps && grep -q "$(cat id) .*lost" ps && run 0 doze events f && has out suspended
'
linux_test 'a snapshot and a fork of one that computes run on, like itself' '
    doze exec -d w -- python3 -c "
import os
n = 0
while True:
    n += 1
    with open(\"/workspace/n.new\", \"w\") as f: f.write(str(n))
    os.replace(\"/workspace/n.new\", \"/workspace/n\")" >id && until_true doze exec w -- test -s /workspace/n && run 0 doze snapshot w && snap=$(cat out) &&
    run 0 doze fork -q --count 1 w && forked=$(cat out) && run 0 doze create -q --snapshot "$snap" --name of && api 200 GET "$(s /of)" && has out "\"keep\":\"memory\"" &&
    goes_on w && goes_on "$forked" && goes_on of && doze ps w >ps && has ps "$(cat id)" && run 0 doze events w && lacks out crashed &&
    run 0 doze kill -s KILL w "$(cat id)" && run 0 doze suspend w && run 0 doze clone w --name copy && run 0 doze exec copy -- test -s n
'
linux_test 'git in the working directory, as root and as user' '
    run 0 doze exec w -- bash -c "git init -q g && cd g && echo a >f && git add f && git -c user.name=n -c user.email=n@x commit -qm one && git log --format=%s" && [ "$(cat out)" = one ] &&
    run 0 doze exec -u user w -- bash -c "git init -q h && git -C h status -s && git -C g log --format=%s" && [ "$(cat out)" = one ]
'
linux_test 'programs see the processor of the host' '
    run 0 doze exec w -- grep -E "^(vendor_id|flags)" /proc/cpuinfo && grep -E "^(vendor_id|flags)" /proc/cpuinfo | sort -u >want && sort -u out | cmp - want
'
stop
test_done
