#!/bin/bash
# The files of volumes without a sandbox: cp, export, import, du, and the API's routes; what excludes them,
# and what they exclude; interrupted ones leave nothing. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1

sh_in() { run 0 doze exec "$1" -- sh -c "$2"; }
export V=/v1/volumes/data
# Processes other than the daemon that have a file of the data directory open.
users() { find /proc/[0-9]*/fd -lname "$PWD/data/$1" 2>/dev/null | cut -d/ -f3 | grep -vx "$(cat daemon.pid)"; }
lone() { [ -n "$(users "volumes/*")" ]; }
no_lone() { ! lone; }

test_that 'a volume is filled from an archive, before any sandbox has mounted it' '
    run 0 doze volume create data --size 64MiB && mkdir -p in/d/e && echo one >in/a && echo two >in/d/e/b && ln -s /a in/link && ln -s ../../../a in/d/e/up && tar -C in -cf in.tar . &&
    run 0 doze volume import data in.tar && [ "$(cat out)" -gt 5 ] && run 0 doze volume import data - --path /more/below --json <in.tar && has out "\"members\"" &&
    run 1 doze volume import data in.tar --path /a && has err "Not a directory" && echo junk >junk && run 1 doze volume import data junk && run 1 doze volume import none in.tar && has err "there is no volume"
'
test_that 'files are read, listed and added up; links stay in the volume' '
    api 200 GET "$V/files?path=/d/e/b" && [ "$(cat out)" = two ] && api 200 GET "$V/files?path=/link" && [ "$(cat out)" = one ] && api 200 GET "$V/files?path=/d/e/up" && [ "$(cat out)" = one ] &&
    api 200 GET "$V/files?path=/../../d/e/b" && [ "$(cat out)" = two ] && api 404 GET "$V/files?path=/workspace/a" && api 404 GET "$V/files?path=/x" && api 400 GET "$V/files?path=/d" && api 400 GET "$V/files" &&
    api 200 GET "$V/files/list?path=/" && has out "\"path\":\"d\"" && has out "\"path\":\"link\"" && lacks out "workspace" && api 404 GET "$V/files/list?path=/none" && api 200 GET "$V/files/list?path=/more&depth=9" && has out "below/d/e/b" &&
    api 200 GET "$V/files/usage?path=/d" && has out "\"size_bytes\":4" && has out "\"names\":4" && api 404 GET "$V/files/usage?path=/none" &&
    run 0 doze volume du data /d/e/b && [ "$(cat out)" = 4 ] && run 0 doze volume du data --json && has out "\"names\"" && run 1 doze volume du none &&
    curl -s --unix-socket data/doze.sock -H "Range: bytes=1-2" -o part -w "%{http_code}" "http://d$V/files?path=/d/e/b" >code && [ "$(cat code)" = 206 ] && [ "$(cat part)" = wo ]
'
test_that 'an export is what was imported, and a mounted reader does not hinder it' '
    run 0 doze create base --name r --volume data:/data:ro && sh_in r "cat /data/d/e/b" && has out two && run 0 doze volume export data all.tar && mkdir got && tar -C got -xf all.tar && diff -r --no-dereference in/d got/d && [ "$(cat got/more/below/a)" = one ] &&
    run 0 doze volume export data - --path /d && tar -tf out >names && has names e/b && api 404 GET "$V/files/tar?path=/none" && api 200 GET "$V/files/tar?path=/a" && [ "$(tar -xOf out)" = one ] &&
    run 1 doze volume import data in.tar && has err "has it mounted for reading" && api 409 PUT "$V/files/tar?path=/" x && has out "\"reason\":\"volume\"" && run 0 doze suspend r
'
test_that 'a sandbox that sleeps with a file open which an import replaces: it wakes, and the file is stale' '
    run 0 doze volume create open && run 0 doze create base --name opener --volume open:/data && mkdir -p repl && echo new >repl/log && tar -C repl -cf repl.tar log &&
    api 201 POST "$(s /opener/exec)" "{\"shell\":\"mkfifo /workspace/go; exec 5>>/data/log 6>/workspace/said; echo old >&5; read x </workspace/go; echo more >&5 || echo stale >&6; touch /workspace/end\",\"background\":true}" &&
    until_true sh_in opener "test -e /workspace/said" && run 0 doze suspend opener && run 0 doze volume import open repl.tar &&
    sh_in opener "echo x >/workspace/go; until [ -e /workspace/end ]; do sleep 0.05; done; cat /workspace/said /data/log" && [ "$(tr "\n" " " <out)" = "stale new " ] && run 0 doze rm -f opener && run 0 doze volume rm open
'
test_that 'a copy is a volume of its own' '
    run 0 doze volume cp data second && [ "$(cat out)" = second ] && api 200 GET /v1/volumes/second && has out "\"size_bytes\":67108864" && api 409 POST "$V/copy" "{\"name\":\"second\"}" && has out "already exists" &&
    api 400 POST "$V/copy" "{}" && has out "\"field\":\"name\"" && api 404 POST /v1/volumes/none/copy "{\"name\":\"x\"}" && run 0 doze create base --name w --volume second:/s && sh_in w "cat /s/d/e/b; echo new >/s/a" && has out two &&
    api 200 GET "$V/files?path=/a" && [ "$(cat out)" = one ]
'
test_that 'a writer that runs excludes all of it, by its name; asleep it excludes nothing' '
    for at in "files?path=/a" "files/list?path=/" "files/usage?path=/" "files/tar?path=/"; do api 409 GET "/v1/volumes/second/$at" && has out "mounted for writing" && has out "\"reason\":\"volume\"" && has out "sbx_" || exit 1; done &&
    run 1 doze volume cp second third && run 0 doze suspend w && api 200 GET "/v1/volumes/second/files?path=/a" && [ "$(cat out)" = new ] && run 0 doze volume cp second third && [ "$(ls data/volumes/*.doze | wc -l)" = 3 ]
'
test_that 'what a killed writer has told is in the copy and in the export' '
    sh_in w "echo kept >/s/kept" && id=$(doze get w --json | grep -oE "sbx_[a-z0-9]+" | head -1) && kill -9 $(users "live/$id.doze") &&
    until_state w suspended && ls -l data/volumes && run 0 doze volume cp second fourth && api 200 GET "/v1/volumes/fourth/files?path=/kept" && [ "$(cat out)" = kept ] && api 200 GET "/v1/volumes/second/files?path=/kept" && [ "$(cat out)" = kept ] &&
    for f in data/volumes/*.doze; do run 0 doze disk check "$f" || exit 1; done
'
test_that 'an import that runs excludes sandboxes; broken off, it leaves nothing' '
    mkfifo pipe && { curl -s --unix-socket data/doze.sock -T - -o broken "http://d$V/files/tar?path=/" <pipe & sender=$!; } && exec 9>pipe && tar -C in -cf - . | head -c 2000 >&9 && until_true lone &&
    api 409 GET "$V/files?path=/a" && has out "another request" && api 409 DELETE "$V" && has out "\"reason\":\"volume\"" && run 125 doze exec r -- true && has err "a request is using its files" && run 0 doze get r --json && has out suspended &&
    api 409 POST "$V/copy" "{\"name\":\"x\"}" && met=yes; kill -9 "$sender"; exec 9>&-; wait "$sender" || true; [ "$met" = yes ] && until_true no_lone && sh_in r "cat /data/a" && has out one && run 0 doze suspend r
'
test_that 'a quota of its own, also for an import' '
    run 0 doze volume create small --size 1MiB && dd if=/dev/urandom of=in/big bs=1M count=4 2>/dev/null && tar -C in -cf big.tar . && run 1 doze volume import small big.tar && has err "limit: nothing was imported" && api 200 GET "/v1/volumes/small/files/list?path=/" && has out "\"entries\":[]"
'
test_that 'an interrupted export leaves the file that was there; nothing is left in the data directory' '
    echo old >keep.tar && dd if=/dev/urandom of=in/big bs=1M count=40 2>/dev/null && tar -C in -cf big.tar . && run 0 doze volume import data big.tar && mkfifo slow &&
    { doze volume export data - >slow 2>/dev/null & out=$!; } && exec 8<slow && until_true lone && met=yes; kill -TERM "$out"; exec 8<&-; wait "$out" || true; [ "$met" = yes ] && until_true no_lone && [ "$(cat keep.tar)" = old ] && [ -z "$(ls -A data/volumes | grep -v "^vol_")" ] &&
    run 0 doze volume export data keep.tar -q && tar -tf keep.tar >names && has names big && [ -z "$(ls -A | grep "doze-")" ]
'
test_that 'requests that a tenant does not read do not keep others from their volumes' '
    token=$(doze token create t --tenant other) && curl -sf --unix-socket "$SOCK" -H "Authorization: Bearer $token" --data "{\"name\":\"theirs\"}" -o out http://d/v1/volumes && cat >stalled.py <<EOF
import socket, subprocess, sys
held = []
for i in range(16):
    s = socket.socket(socket.AF_UNIX)
    s.connect("$SOCK")
    s.sendall(b"GET $V/files?path=/big HTTP/1.1\r\nHost: d\r\n\r\n")
    assert s.recv(12) == b"HTTP/1.1 200", i
    held.append(s)
def status(path, *more):
    return subprocess.run(["curl", "-s", "-o", "out", "-w", "%{http_code}", "--unix-socket", "$SOCK", *more, "http://d" + path], capture_output=True, text=True).stdout
got = status("$V/files/list?path=/"), status("/v1/volumes/theirs/files/list?path=/", "-H", "Authorization: Bearer $token")
print(got)
sys.exit(got != ("503", "200"))
EOF
    python3 stalled.py && until_true no_lone && api 200 GET "$V/files/list?path=/"
'
test_that 'the daemon stops while an operation runs' '
    mkfifo last && { curl -s --unix-socket data/doze.sock -T - -o broken "http://d$V/files/tar?path=/" <last & sender=$!; } && exec 9>last && tar -C in -cf - d | head -c 1000 >&9 && until_true lone && stop && met=yes; exec 9>&-; kill "$sender" || true; wait "$sender" || true; [ "$met" = yes ]
'
test_done
