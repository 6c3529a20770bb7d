#!/bin/bash
# Volumes: made, listed, mounted for writing and reading, by subpath; leases over suspend, wake, kill
# and restart; refusals by name. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1

v() { printf '{"image":"base","name":"%s","volumes":[{"name":"data","path":"%s","mode":"%s"}]}' "$1" "$2" "$3"; }
sh_in() { run 0 doze exec "$1" -- sh -c "$2"; }
cell_of() { find /proc/[0-9]*/fd -lname "$PWD/data/live/$1.doze" 2>/dev/null | cut -d/ -f3 | grep -vx "$(cat daemon.pid)" | head -1; }

test_that 'a volume is made, listed and shown; a second one of its name, wrong names and sizes are refused' '
    run 0 doze volume create data --size 64MiB && [ "$(cat out)" = data ] &&
    api 409 POST /v1/volumes "{\"name\":\"data\"}" && has out "already exists" &&
    api 400 POST /v1/volumes "{}" && has out "\"field\":\"name\"" && api 400 POST /v1/volumes "{\"name\":\"x\",\"size\":\"1KiB\"}" && has out "\"field\":\"size\"" &&
    api 200 GET /v1/volumes && has out "\"size_bytes\":67108864" && api 200 GET /v1/volumes/data && has out "\"leases\":[]" &&
    api 404 GET /v1/volumes/none && api 400 GET "/v1/volumes?cursor=x" && run 0 doze volume ls && has out data
'
test_that 'mounts are checked before anything is made' '
    api 400 POST "$(s)" "{\"image\":\"base\",\"volumes\":[{\"name\":\"none\",\"path\":\"/data\"}]}" && has out "volumes[0].name" &&
    for p in data / /a/../b /proc/x /dev "/a//b"; do
        api 400 POST "$(s)" "{\"image\":\"base\",\"volumes\":[{\"name\":\"data\",\"path\":\"$p\"}]}" && has out "volumes[0].path" || exit 1
    done &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"volumes\":[{\"name\":\"data\",\"path\":\"/d\",\"mode\":\"w\"}]}" && has out "volumes[0].mode" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"volumes\":[{\"name\":\"data\",\"path\":\"/d\",\"colour\":\"red\"}]}" && has out "volumes[0]" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"volumes\":[{\"name\":\"data\",\"path\":\"/d\"},{\"name\":\"data\",\"path\":\"/e\"}]}" && has out "volumes[1].name" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"volumes\":[{\"name\":\"data\",\"path\":\"/d\"},{\"name\":\"data\",\"path\":\"/d/e\"}]}" && has out "volumes[1].path" &&
    api 400 POST "$(s)" "{\"image\":\"base\",\"volumes\":{}}" && has out "must be an array" && run 0 doze ls -q && [ ! -s out ]
'
test_that 'a writer: files in the volume are not in the sandbox, names cannot move between them' '
    run 0 doze create base --name w --volume data:/data && sh_in w "echo one >/data/a && mkdir -p /data/d/e && cd /data/d/e && pwd && cd ../../.. && pwd" &&
    [ "$(cat out)" = "$(printf "/data/d/e\n/")" ] && sh_in w "cat /data/a; ls -a /data; grep /data /proc/mounts" && has out "data /data doze rw" &&
    run 1 doze exec w -- sh -c "ln /data/a /workspace/a" && run 1 doze exec w -- rmdir /data && sh_in w "mv /data/a /workspace/b && mv /workspace/b /data/a && cat /data/a" && has out one &&
    run 0 doze cat w:/data/a && has out one
'
test_that 'files and archives are uploaded into a volume; the sandbox that mounts it is woken for that' '
    echo up >up && mkdir -p tree/t && echo deep >tree/t/x && tar -C tree -cf tree.tar . && mkdir over && mkdir over/data && echo x >over/data/new && tar -C over -cf over.tar . &&
    api 201 PUT "$(s "/w/files?path=/data/up")" @up && api 204 PUT "$(s "/w/files?path=/data/up")" @up && sh_in w "cat /data/up; ls -A /data" && has out up && lacks out doze-put &&
    api 200 PUT "$(s "/w/files/tar?path=/data")" @tree.tar && run 0 doze cp -r tree w:/data/copied && sh_in w "cat /data/t/x /data/copied/t/x; ls -A /data" && [ "$(grep -c deep out)" = 2 ] && lacks out doze-untar &&
    api 400 PUT "$(s "/w/files/tar?path=/")" @over.tar && has out "volume is mounted" && sh_in w "ls -A / /data" && lacks out new && lacks out doze-untar &&
    api 400 POST "$(s /w/files/move)" "{\"from\":\"/data/up\",\"to\":\"/workspace/up\"}" &&
    run 0 doze suspend w && api 201 PUT "$(s "/w/files?path=/data/asleep")" @up && run 0 doze suspend w && run 0 doze cp -r tree w:/data/asleep2 && run 0 doze suspend w && api 200 PUT "$(s "/w/files/tar?path=/data/asleep2")" @tree.tar &&
    sh_in w "cat /data/asleep /data/asleep2/t/x" && has out up && has out deep && sh_in w "rm -r /data/asleep* /data/up /data/t /data/copied"
'
test_that 'one writer: other sandboxes that want the volume do not wake, and it cannot be deleted' '
    api 409 POST "$(s)" "$(v r /in ro)" && has out "data" && has out "mounted for writing" && has out "\"code\":\"conflict\",\"reason\":\"volume\"" && has out "\"retry\":true" && run 1 doze get r &&
    api 409 DELETE /v1/volumes/data && has out "running sandbox" && api 200 GET /v1/volumes/data && has out "\"mode\":\"rw\""
'
test_that 'asleep the writer holds nothing: many read, each at its own path; it cannot wake meanwhile' '
    run 0 doze suspend w && api 200 GET /v1/volumes/data && has out "\"leases\":[]" &&
    api 201 POST "$(s)" "$(v r1 /in ro)" && api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"r2\",\"volumes\":[{\"name\":\"data\",\"path\":\"/srv/x\",\"mode\":\"ro\",\"subpath\":\"/d\"}]}" &&
    sh_in r1 "cat /in/a" && has out one && sh_in r2 "ls /srv/x" && [ "$(cat out)" = e ] &&
    api 403 PUT "$(s "/r1/files?path=/in/up")" @up && has out "Read-only" && api 403 PUT "$(s "/r1/files/tar?path=/in")" @tree.tar && run 1 doze cp up r1:/in/up && has err "Read-only" &&
    run 1 doze exec r1 -- sh -c "echo x >/in/new" && run 1 doze exec r1 -- sh -c "echo x >>/in/a" && run 1 doze exec r1 -- rm /in/a &&
    run 125 doze exec w -- true && has err "cannot be mounted for writing" && run 0 doze get w --json && has out suspended
'
test_that 'suspended with an open file, woken: the file goes on; changed by another meanwhile: it is stale' '
    run 0 doze suspend r1 && run 0 doze suspend r2 &&
    api 201 POST "$(s /w/exec)" "{\"shell\":\"mkfifo /workspace/go1 /workspace/go2; cd /data/d; exec 5>>/data/log 6>/workspace/said; for n in 1 2; do read x </workspace/go\$n; echo on >&5 || echo stale >&6; pwd -P >&6; echo \$n >/workspace/end\$n; done\",\"background\":true}" &&
    until_true sh_in w "test -e /workspace/said" && run 0 doze suspend w && sh_in w "echo x >/workspace/go1; until [ -e /workspace/end1 ]; do sleep 0.05; done; cat /data/log /workspace/said" && [ "$(cat out)" = "$(printf "on\n/data/d")" ] &&
    run 0 doze suspend w && api 201 POST "$(s)" "$(v w2 /mine rw)" && sh_in w2 "rm /mine/log; rm -r /mine/d; echo other >/mine/other; mkdir -p /mine/d/e" && run 0 doze suspend w2 &&
    sh_in w "echo x >/workspace/go2; until [ -e /workspace/end2 ]; do sleep 0.05; done; ls /data; cat /data/other /workspace/said" && has out stale && has out other && lacks out log
'
test_that 'a killed cell: what was told is in the volume, and others get it' '
    sh_in w "echo kept >/data/kept" && id=$(doze get w --json | grep -oE "sbx_[a-z0-9]+" | head -1) && kill -9 "$(cell_of "$id")" &&
    until_state w suspended && sh_in r1 "cat /in/kept" && has out kept && run 0 doze suspend r1
'
test_that 'a killed daemon: leases end with the runs, and what was told is there' '
    sh_in w "echo more >/data/more" && kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && start && sh_in r1 "cat /in/more" && has out more && run 0 doze suspend r1 &&
    sh_in w "cat /data/more && echo again >/data/again"
'
test_that 'a quota of its own' '
    run 1 doze exec w -- sh -c "dd if=/dev/zero of=/data/big bs=1M count=80 2>&1" && has out "Quota exceeded" && sh_in w "rm /data/big; df /data | tail -1; stat -c %d / /data" &&
    [ "$(tail -2 out | sort -u | wc -l)" = 2 ]
'
test_that 'a fork carries the mount, not the content, and waits for the lease' '
    api 409 POST "$(s /w/fork)" "{\"count\":1}" && has out "cannot be mounted for writing" && run 0 doze ls -q && [ "$(wc -l <out)" = 4 ] && run 0 doze suspend w &&
    api 201 POST "$(s /w/snapshot)" "{\"name\":\"snap\"}" && api 201 POST "$(s)" "{\"snapshot\":\"snap\",\"name\":\"f\"}" && sh_in f "cat /data/again; echo forked >/data/again" && has out again &&
    run 0 doze suspend f && sh_in w "cat /data/again" && has out forked && run 0 doze suspend w && run 0 doze rm --force f
'
test_that 'deleted while only sleeping sandboxes mount it: they do not wake, by name, and stay as they are' '
    run 0 doze volume rm data && run 125 doze exec w -- true && has err "there is no volume" && api 409 POST "$(s /w/wake)" && has out "\"reason\":\"volume\"" && run 0 doze get w --json && has out suspended &&
    [ -z "$(ls data/volumes)" ] && run 1 doze volume rm data
'
test_that 'destroy leaves volumes alone' '
    run 0 doze volume create keep && run 0 doze create base --name d --volume keep:/keep && sh_in d "echo x >/keep/x" && run 0 doze rm --force d &&
    run 0 doze create base --name d2 --volume keep:/keep:ro && sh_in d2 "cat /keep/x" && has out x && run 0 doze rm --force d2 && run 0 doze volume rm keep && stop
'
test_done
