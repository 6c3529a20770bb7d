#!/bin/bash
# Native programs that sleep in their sandbox's file: suspended, woken, forked, snapshotted, moved.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
export x=''
start
shows() { doze logs "$1" "$2" >out && has out "$3" >/dev/null; } # SANDBOX COMMAND TEXT
typed() { # SANDBOX COMMAND TEXT: a line for its standard input
    printf '%s\n' "$3" | curl -sS --unix-socket "$SOCK" --data-binary @- "http://d$(s "/$1/exec/$2/stdin")" >/dev/null
}
# REPL SANDBOX: an interactive python3, whose command is x
repl() {
    api 201 POST "$(s "/$1/exec")" "{\"cmd\":[\"python3\",\"-i\",\"-q\"],\"stdin\":true,\"background\":true}" && x=$(field exec_id)
}
asleep() { run 0 doze suspend "$1" && until_state "$1" suspended; }

linux_test 'an interactive python3 keeps its variables over ten sleeps' '
    created --name w && repl w && typed w "$x" "n = 0; big = bytearray(3_000_000)" &&
    for i in 1 2 3 4 5 6 7 8 9 10; do
        typed w "$x" "n += $i; big[n * 1000] = n; print(\"n\", n, sum(big))" && until_true shows w "$x" "n $((i * (i + 1) / 2)) " && asleep w || return 1
    done && typed w "$x" "print(\"end\", n, big[55000], len(big))" && until_true shows w "$x" "end 55 55 3000000" &&
    doze ps w >ps && grep -q "$x .*running" ps && run 0 doze events w && lacks out lost
'
linux_test 'its file is not much larger than what the programs wrote' '
    created --name small && repl small && typed small "$x" "print(6 * 7)" && until_true shows small "$x" 42 && asleep small &&
    api 200 GET "$(s /small)" && [ "$(field file_bytes)" -lt 4000000 ] && [ "$(field file_bytes)" -gt 100000 ]
'
linux_test 'a computation with threads, children and pipes gives the same result' '
    run 0 doze exec w -- bash -c "seq 1 200000 | sort -rn | md5sum; python3 -c \"print(sum(i * i for i in range(3000000)))\"" && cp out want &&
    created --name c && x=$(doze exec -d c -- bash -c "seq 1 200000 | sort -rn | md5sum; python3 -c \"print(sum(i * i for i in range(3000000)))\"; echo fin") &&
    for _ in 1 2 3 4 5 6; do run 0 doze suspend c && run 0 doze wake c || return 1; done &&
    run 0 doze attach c "$x" && echo fin >>want && cmp want out
'
linux_test 'a timer wakes a sandbox whose programs only wait' '
    created --name t && x=$(doze exec -d t -- bash -c "echo up >/workspace/up; sleep 2; echo woke >/workspace/f; sleep 1000") &&
    until_true doze exec t -- bash -c "ps -eo args | grep -qx \"sleep 2\"" && asleep t && api 200 GET "$(s /t)" && has out "\"wake_at\":\"20" &&
    until_state t active && until_true doze exec t -- test -s /workspace/f && doze ps t >ps && grep -q "$x .*running" ps
'
linux_test 'an idle sandbox is suspended with its processes, and a request finds them' '
    created --name i --idle 1s && repl i && typed i "$x" "v = 41" && until_state i suspended && typed i "$x" "print(\"v\", v + 1)" && until_true shows i "$x" "v 42"
'
linux_test 'forks and snapshots of a sleeping and of a waking sandbox have its programs' '
    created --name p && repl p && typed p "$x" "import os; v = [1]" && typed p "$x" "print(\"pid\", os.getpid(), v)" && until_true shows p "$x" "[1]" &&
    run 0 doze fork -q --count 1 p && q=$(cat out) && typed p "$x" "v.append(2)" && typed "$q" "$x" "v.append(3)" && typed p "$x" "print(\"p\", v)" && typed "$q" "$x" "print(\"q\", v)" &&
    until_true shows p "$x" "p [1, 2]" && until_true shows "$q" "$x" "q [1, 3]" && asleep "$q" && asleep p &&
    run 0 doze snapshot p && snap=$(cat out) && run 0 doze create -q --snapshot "$snap" --name r && run 0 doze fork -q --count 1 "$q" && u=$(cat out) &&
    typed r "$x" "print(\"r\", v)" && typed "$u" "$x" "print(\"u\", v)" && until_true shows r "$x" "r [1, 2]" && until_true shows "$u" "$x" "u [1, 3]"
'
cat >sleeper.sh <<'END'
v=1
echo begin
trap 'v=$((v + 1)); echo "usr $v"' USR1
kill -USR1 $$
sleep 1
echo "woke $v" | cat
END
linux_test 'a sandbox in a file: moved, looked at, an image of it, without memory' '
    run 75 doze run --image debian -f a.doze --copy sleeper.sh:/sleeper.sh --suspend-after 700ms -- bash /sleeper.sh && [ "$(tr "\n" " " <out)" = "begin usr 2 " ] &&
    run 0 doze inspect a.doze && has out "sleep 1" && has out "bash /sleeper.sh" && mkdir d && cp a.doze d/b.doze && run 0 doze resume d/b.doze && [ "$(cat out)" = "woke 2" ] &&
    run 0 doze image snapshot -q a.doze -t warm && run 0 doze run --image warm && [ "$(cat out)" = "woke 2" ] &&
    run 75 doze run --image debian -f long.doze --suspend-after 300ms -- bash -c "sleep 1000; echo late" && run 0 doze image snapshot -q long.doze -t long &&
    run 75 doze resume --new c.doze -I long --suspend-after 10ms && run 0 doze inspect c.doze && has out "sleep 1000" &&
    run 0 doze run --image debian -f a.doze --drop-memory -- echo dropped && [ "$(cat out)" = dropped ]
'
cat >warm.py <<'END'
import os, sys
x = os.urandom(3 << 20)
y = x[::-1]
print("ready", flush=True)
n = 0
while line := sys.stdin.readline().strip():
    n += 1
    print(n, line, y[::-1] == x if line == "all" else x[n] == y[-1 - n], flush=True)
END
# rests LINE ANSWER ARG...: a program that doze runs gets the line, and is suspended when it has answered
rests() {
    local line=$1 answer=$2 status=0
    shift 2
    rm -f in-pipe && mkfifo in-pipe
    DOZE_AUTOSTART=0 doze "$@" <in-pipe >rests.out 2>rests.err 8>&- 9>&- &
    local pid=$!
    exec 9>in-pipe
    [ -z "$line" ] || echo "$line" >&9
    until_true grep -qx "$answer" rests.out || cat rests.err
    kill -TERM $pid
    wait $pid || status=$?
    exec 9>&-
    [ $status -eq 75 ]
}
size_of() { stat -c %s "$1"; }
linux_test 'a sandbox of an image in which programs sleep stores only what they changed' '
    rests "" ready run -i --keep -f py.doze --image debian --copy warm.py:/warm.py -- python3 /warm.py && [ "$(size_of py.doze)" -gt 6000000 ] &&
    run 0 doze image snapshot -q py.doze -t warmpy && rests one "1 one True" run -i --keep -f own.doze --image warmpy && [ "$(size_of own.doze)" -lt 3000000 ] &&
    run 0 doze inspect own.doze && has out "warm.py" && rests two "2 two True" resume -i own.doze && [ "$(size_of own.doze)" -lt 3000000 ] &&
    run 0 doze image snapshot -q own.doze -t again && run 0 doze image rm warmpy && echo all >in && run 0 doze run -i --image again <in && [ "$(cat out)" = "3 all True" ]
'
cat >hears.py <<'END'
import os
f, g = os.open("/proc/doze", os.O_RDWR), open("/proc/generation").read()
print("opened", flush=True)
while True:
    line = os.read(f, 64).decode().split()
    now = open("/proc/generation").read()
    print(*line[:1], *(["new" if now != g else "old", now.split() == line[1:]] if line[1:] else []), flush=True)
    if line[0] == "sleep":
        os.write(f, b"ready")
END
linux_test 'a program hears of suspends, forks and wakes, and the suspend waits for its answer' '
    created --name h && run 0 doze cp hears.py h:/workspace/hears.py && x=$(doze exec -d h -- python3 /workspace/hears.py) && until_true shows h "$x" opened &&
    run 0 doze fork -q --count 1 h && q=$(cat out) && until_true shows h "$x" "awake old True" && until_true shows "$q" "$x" "awake new True" &&
    asleep h && run 0 doze wake h && until_true shows h "$x" "awake new True" && doze logs h "$x" >log && printf "%s\n" opened sleep "awake old True" sleep "awake new True" | cmp - log
'
linux_test 'under a baseline programs are told of fewer features, and demand no more of a host' '
    { doze run --image debian --cpu x86-64-v2 -- true || skip "this host lacks x86-64-v2"; } && [ -z "$(doze run --image debian -- printenv GLIBC_TUNABLES)" ] &&
    run 75 doze run --image debian --cpu x86-64-v2 -f v2.doze --suspend-after 300ms -- bash -c "sleep 1; printenv GLIBC_TUNABLES; grep -cw avx2 /proc/cpuinfo; true" && run 0 doze inspect v2.doze && grep -qx "processor: x86-64-v2" out &&
    run 75 doze resume --cpu x86-64-v2 --suspend-after 10ms v2.doze && run 0 doze resume --cpu x86-64-v2 v2.doze && has out ",-AVX2," && tail -n 1 out | grep -qx 0 &&
    run 75 doze run --image debian -f host.doze --suspend-after 300ms -- sleep 1000 && doze inspect host.doze | grep processor: >host.cpu && run 75 doze resume --cpu x86-64-v2 --suspend-after 10ms host.doze &&
    doze inspect host.doze | grep processor: | cmp - host.cpu && stop && start --cpu x86-64-v2 && created --name v2 && run 0 doze exec v2 -- printenv OPENSSL_ia32cap && has out "~0x"
'
linux_test 'a daemon that ends and starts again finds them asleep' '
    created --name z && repl z && typed z "$x" "v = [1, 2]; print(\"now\", v)" && until_true shows z "$x" "now [1" && asleep z && stop && start &&
    typed z "$x" "print(\"after\", v)" && until_true shows z "$x" "after [1, 2]"
'
stop
test_done
