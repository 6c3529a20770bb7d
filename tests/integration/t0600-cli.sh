#!/bin/bash
# The commands that ask a daemon, against one with canned answers (tests/web/canned.c).
# shellcheck disable=SC2016 # $ inside of tests
. "$(dirname "$0")/lib.sh"
canned=$(dirname "$DOZE")/canned
[ -x "$canned" ] || { echo "Bail out! $canned is not there: run make first"; exit 1; }
"$canned" "$PWD/sock" >requests 2>canned.err &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT
export DOZE_URL=unix:$PWD/sock
for _ in $(seq 200); do [ -S sock ] && break; sleep 0.02; done

test_that 'ls shows all pages, for people, for programs and as ids' '
    run 0 doze ls && has out "sbx_1  web" && has out "2.0 KiB" && has out " ago" && has out "evil\\x1b[31m" && lines out 3 &&
    run 0 doze ls -q && [ "$(cat out)" = "$(printf "sbx_1\nsbx_2")" ] &&
    run 0 doze ls --json && has out "[{\"id\":\"sbx_1\"" && has out "{\"id\":\"sbx_2\"" &&
    run 0 doze ls --state none -q && empty out
'
test_that 'get shows what is set; an error is the daemon'"'"'s' '
    run 0 doze get web && has out "labels.a" && has out "suspended" && lacks out error &&
    run 0 doze get --json web && has out "\"error\":null" && run 0 doze get -q web && has out sbx_1 &&
    run 1 doze get nobody && has err "doze: no sandbox has this name or id"
'
test_that 'create passes its options on' '
    run 0 doze create python -n x -e A=1 -l team=a=b -m 64MB --idle 5m --no-start && [ "$(cat out)" = sbx_new ] &&
    run 0 doze create --json --image python --idle never && has out "\"image\":\"python\"" && has out "\"mode\":\"never\"" &&
    run 0 doze create --json python -e A=1 -l t=a=b -m 64MB --idle 5m --no-start --no-resume &&
    has out "\"env\":{\"A\":\"1\"}" && has out "\"labels\":{\"t\":\"a=b\"}" && has out "\"memory\":\"64MB\"" &&
    has out "\"timeout\":\"5m\"" && has out "\"start\":false" && has out "\"auto_resume\":false" &&
    run 2 doze create python -e A && has err NAME=VALUE && run 2 doze create python --idle soon && has err duration &&
    run 2 doze create && has err "IMAGE is missing" && run 2 doze create python --image other && run 0 doze sandbox create -q python && has out sbx_new
'
test_that 'one hop each, and the state after it' '
    for verb in freeze revive prefetch; do run 0 doze $verb web && has out "after $verb" || exit 1; done &&
    run 0 doze suspend web --keep files && has out "keep" && run 0 doze suspend -q web && empty out &&
    run 0 doze wake web && has out "awake in 0.8 ms (local)" && run 0 doze sandbox wake --json web && has out "0.84" &&
    run 1 doze archive web && has err "only a frozen one" &&
    run 0 doze hold web --for 2h && has out 2h && run 0 doze hold web --release && has out free &&
    run 2 doze hold web --for ever && run 2 doze hold web --for 1h --release
'
test_that 'rm goes on after a failure' '
    run 0 doze rm web && run 0 doze sandbox destroy -f a b && lines out 2 && has requests "DELETE /v1/sandboxes/b 204"
'
test_that 'exec has the output, the streams and the status of the command' '
    run 0 doze exec web -- echo hello "a  b" && [ "$(cat out)" = "hello a  b" ] &&
    run 3 doze exec web fail && has out out && has err err && lacks out err &&
    run 127 doze exec web -- none && has err "none: no such program" &&
    run 125 doze exec nobody -- echo && has err "no sandbox has this name" &&
    run 2 doze exec web -- && has err "COMMAND is missing" &&
    run 0 doze exec -e A=1 -w /tmp -u 5 --timeout 3s web -- env x &&
    has out "\"env\":{\"A\":\"1\"}" && has out "\"cwd\":\"/tmp\"" && has out "\"user\":\"5\"" && has out "\"timeout\":\"3s\"" && has out "\"stdin\":false" &&
    run 2 doze exec --timeout soon web -- env && run 0 doze exec -d web -- sleep 9 && has out exe_9 &&
    run 0 doze sandbox exec web echo x && has out x && run 0 doze exec --json -d web sleep && has out "{\"exec_id\""
'
test_that 'exec passes standard input on, and much output' '
    seq 200000 >in && run 0 doze exec -i web -- cat <in && cmp in out &&
    run 0 doze exec web -- flood && [ "$(wc -c <out)" -eq 3000000 ] && run 0 doze exec -i web -- cat </dev/null && empty out
'
test_that 'signals go to the command' '
    mkfifo pipe && { doze exec web -- trap >pipe & pid=$!; } && exec 8<pipe && read -r line <&8 && [ "$line" = ready ] &&
    kill -INT $pid && status=0 && { wait $pid || status=$?; } && [ "$status" -eq 130 ] && [ "$(cat <&8)" = INT ]
'
test_that 'a lost connection is made again where the output stopped' '
    run 4 doze exec web -- drop && [ "$(cat out)" = "$(printf "one\ntwo")" ]
'
test_that 'attach takes a command, with or without its sandbox, a fork, a reference' '
    run 4 doze attach web exe_1 && [ "$(cat out)" = "$(printf "one\ntwo")" ] &&
    run 4 doze attach --no-stdin exe_1 && has out two &&
    run 0 doze attach frk_1 --name n --json && has out "\"name\":\"n\"" && run 0 doze attach ref_1 && has out sbx_new &&
    run 2 doze attach sbx_1 && run 2 doze attach web frk_1
'
test_that 'a terminal is passed on, with its size' '
    command -v script >/dev/null || skip "no script(1)"
    run 0 script -qec "stty rows 33 cols 77; doze exec -t web -- env" /dev/null &&
    has out "\"cols\":77,\"rows\":33" && has out "\"TERM\"" &&
    run 0 script -qec "(sleep 0.3; stty rows 40 cols 99 </dev/tty) & exec doze exec -t web -- size" /dev/null &&
    has out "{\"type\":\"resize\",\"cols\":99,\"rows\":40}"
'
test_that 'branches of a daemon'"'"'s sandbox' '
    run 0 doze snapshot web --name s && has out snap_1 && run 0 doze fork web && has out frk_1 &&
    run 0 doze fork web --count 2 && [ "$(cat out)" = "$(printf "sbx_3\nsbx_4")" ] && run 2 doze fork web --count 0 &&
    run 0 doze clone web --name c --json && has out "\"name\":\"c\"" && run 0 doze ref web && has out ref_1 &&
    run 2 doze snapshot web b.doze && has err "TARGET is for a file" && run 2 doze snapshot ./web && has err "TARGET is missing"
'
test_that 'cp, cat: both ways, modes kept, nothing half written' '
    seq 100000 >big && chmod 750 big && run 0 doze cp big web:/tmp/ && run 0 doze cat web:/tmp/big && cmp big out &&
    run 0 doze cp web:/tmp/big copy && cmp big copy && [ "$(stat -c %a copy)" = 750 ] &&
    mkdir -p dir && run 0 doze cp web:/tmp/big dir && cmp big dir/big &&
    echo text | doze cp - web:/x && run 0 doze cp web:/x - && has out text &&
    run 1 doze cp web:/missing gone && has err "no such file" && [ ! -e gone ] && [ -z "$(ls | grep doze-)" ] &&
    run 1 doze cp big web:/full && has err "the disk is full" &&
    run 2 doze cp big copy && has err "one of" && run 2 doze cp dir web:/d && has err "use -r" &&
    run 2 doze cp big copy web:/d && has err "end it with /" && run 2 doze cat big
'
test_that 'cp -r: directories as tar streams' '
    mkdir -p tree/sub && echo a >tree/a && echo b >tree/sub/b && ln -s a tree/l &&
    run 0 doze cp -r tree web:/w && run 0 doze cp -r web:/w back && diff -r tree back && [ "$(readlink back/l)" = a ] &&
    run 1 doze cp -r nothing web:/w
'
test_that 'share writes a file whole or not at all' '
    run 0 doze cp big web:/x && run 0 doze share web shared.out && cmp big shared.out && run 1 doze share web shared.out && has err exists
'
test_that 'files and sql' '
    run 0 doze files web && has out "a.py  file  0644   5 B" && run 0 doze files web:/tmp --depth 2 -q && [ "$(cat out)" = a.py ] &&
    run 0 doze files rm -r web:/a web:/b && run 0 doze files mkdir web:/d && run 0 doze files mv web:/a /b && run 2 doze files rm a &&
    run 0 doze sql web "select 1" && has err "only the first rows" && [ "$(cat out)" = "$(printf "path\tn\n/a\\\\tb\t1\n\t2.5")" ] &&
    run 0 doze sql --json web "select 1" && has out "\"columns\""
'
test_that 'ps, logs, kill, events, image ls' '
    run 0 doze ps web && has out "sleep 9" && lacks out exe_0 && run 0 doze ps -a web && has out exe_0 && run 0 doze ps -q web && [ "$(cat out)" = exe_1 ] &&
    run 0 doze logs web exe_1 && [ "$(cat out)" = out ] && printf "\377\000a" | cmp - err &&
    run 0 doze logs -f web && has out out && run 0 doze kill web exe_1 -s SIGINT &&
    run 0 doze events && has out suspended && run 124 timeout 1 doze events -f web && has out "sbx_1 woken {\"ms\":1}" &&
    run 124 timeout 1 doze events -f --json && has out "{\"id\":8" && run 0 doze image ls && has out "python  img_1" && run 0 doze image ls -q && has out img_1
'
test_that 'where the daemon is' '
    DOZE_URL=unix:$PWD/none run 1 doze ls && has err "that DOZE_URL names: nothing listens" &&
    DOZE_URL=https://localhost:1 run 1 doze ls && has err "nothing listens" && DOZE_URL=ftp://x run 1 doze ls && has err "unix:PATH, https://HOST:PORT or http" &&
    unset DOZE_URL && mkdir d && export DOZE_DATA=$PWD/d &&
    DOZE_AUTOSTART=0 run 1 doze ls && has err "DOZE_AUTOSTART=0" && echo doze-x.service >d/service && run 1 doze ls && has err "systemctl start doze-x.service" &&
    rm d/service && ln -s ../sock d/doze.sock && run 0 doze ls -q && has out sbx_1 && [ ! -e d/daemon.log ]
'
test_done
