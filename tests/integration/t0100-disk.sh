#!/bin/bash
# doze disk: a disk's file from outside, without a daemon.
. "$(dirname "$0")/lib.sh"

mkdir -p tree/sub/deep
printf 'one\n' >tree/one
printf 'two\n' >tree/sub/two
head -c 300000 /dev/urandom >tree/sub/random
truncate -s 5000000 tree/holes
printf 'in the middle' | dd of=tree/holes bs=1 seek=2000000 conv=notrunc status=none
ln -s ../one tree/sub/link
chmod 750 tree/sub/two
touch -d '2001-02-03 04:05:06.789012345 UTC' tree/one tree/sub

test_that 'create makes a file of at most 40 KB, and only a new one' '
    run 0 doze disk create box.doze && empty out && empty err &&
    [ "$(stat -c %s box.doze)" -le 40960 ] && [ "$(stat -c %a box.doze)" = 600 ] &&
    run 1 doze disk create box.doze && has err "make box.doze: File exists" &&
    run 0 doze disk ls box.doze && printf "memory\ntmp\nworkspace\n" | cmp - out
'

test_that 'put and get keep contents, modes, times, links and holes' '
    run 0 doze disk put box.doze tree /workspace && empty out && empty err &&
    run 0 doze disk get box.doze /workspace/tree back && empty err &&
    diff -r tree back &&
    [ "$(readlink back/sub/link)" = ../one ] &&
    [ "$(stat -c "%a %y" back/sub/two)" = "$(stat -c "%a %y" tree/sub/two)" ] &&
    [ "$(stat -c %y back/one)" = "$(stat -c %y tree/one)" ] &&
    [ "$(stat -c %y back/sub)" = "$(stat -c %y tree/sub)" ] &&
    [ "$(stat -c %b back/holes)" -lt 1000 ] &&
    [ ! -e box.doze-wal ]
'

test_that 'put takes standard input, several sources, and replaces' '
    printf first | run 0 doze disk put box.doze - /tmp/input &&
    printf second | run 0 doze disk put box.doze - tmp/input &&
    run 0 doze disk cat box.doze /tmp/input && [ "$(cat out)" = second ] &&
    run 0 doze disk put box.doze tree/one tree/sub/two /memory &&
    run 0 doze disk cat box.doze memory/one memory/two && printf "one\ntwo\n" | cmp - out &&
    run 1 doze disk put box.doze tree/one tree/sub/two /tmp/input &&
    has err "Not a directory" &&
    run 1 doze disk put box.doze missing /tmp && has err "missing: No such file or directory"
'

test_that 'get never follows a link of the disk out of its directory' '
    mkdir -p outside evil && printf keep >outside/file &&
    ln -s "$PWD/outside" evil/dir && run 0 doze disk put box.doze evil /tmp &&
    rm evil/dir && mkdir evil/dir && printf bad >evil/dir/file &&
    mkdir target && ln -s "$PWD/outside" target/evil &&
    run 1 doze disk get box.doze /tmp/evil target && [ -h target/evil ] &&
    [ "$(cat outside/file)" = keep ] && [ "$(ls outside)" = file ] &&
    printf x >target/link && ln -sf "$PWD/outside/file" target/input &&
    run 0 doze disk get box.doze /tmp/input target && [ ! -h target/input ] &&
    [ "$(cat outside/file)" = keep ]
'

test_that 'a path that is a symbolic link: get and du take the link, tar what it points to' '
    run 0 doze disk get --links keep box.doze /workspace/tree/sub/link back/link && [ "$(readlink back/link)" = ../one ] &&
    run 0 doze disk du --json box.doze /workspace/tree/sub/link && has out "\"size_bytes\":0" &&
    run 0 doze disk tar box.doze /workspace/tree/sub/link -o link.tar && [ "$(tar -xOf link.tar)" = one ]
'

test_that 'a source is stored completely or not at all' '
    ln -sf two tree/tmp-link && mkdir -p clash/one && printf x >clash/two && touch clash/one/x &&
    run 1 doze disk put box.doze clash/. /workspace/tree && has err "nothing of clash/. was copied" &&
    run 1 doze disk cat box.doze /workspace/tree/two && rm tree/tmp-link
'

test_that 'ls shows names, details, everything below, and JSON' '
    run 0 doze disk ls -l box.doze /workspace/tree &&
    grep -Eq "^-rw-r--r-- +1 +0 +0 +4 2001-02-03T04:05:06Z one$" out &&
    run 0 doze disk ls -l box.doze /workspace/tree/sub && has out "link -> ../one" &&
    run 0 doze disk ls -R box.doze /workspace && has out "/workspace/tree/sub/two" &&
    run 1 doze disk ls box.doze /nowhere && has err "/nowhere: No such file" &&
    run 0 doze disk ls --json -R box.doze /workspace && lines out 1 &&
    python3 - <<EOF2
import json
d = {e["path"]: e for e in json.load(open("out"))}
e = d["/workspace/tree/sub/two"]
assert e["type"] == "file" and e["mode"] == "0750" and e["size"] == 4 and e["name"] == "two"
assert d["/workspace/tree/one"]["mtime"] == "2001-02-03T04:05:06.789Z"
assert d["/workspace/tree/sub/link"]["target"] == "../one"
EOF2
'

test_that 'what only looks at a disk changes nothing in its file' '
    cp box.doze look.doze && sha256sum look.doze >before &&
    run 0 doze disk ls -R look.doze && run 0 doze disk cat look.doze /workspace/tree/one && [ "$(cat out)" = one ] &&
    run 0 doze files ./look.doze && run 0 doze cat ./look.doze:/workspace/tree/one &&
    run 0 doze sql ./look.doze "SELECT 1" && sha256sum -c --quiet before && [ ! -e look.doze-wal ] &&
    run 0 doze files mkdir ./look.doze:/x && run 1 sha256sum -c --quiet before
'

test_that 'names that could steer a terminal are shown escaped' '
    printf x | doze disk put box.doze - "$(printf "/tmp/a\033[31mb\nc")" &&
    run 0 doze disk ls box.doze /tmp && lacks out "$(printf "\033")" && has out "\\x1b[31mb\\nc" &&
    run 0 doze disk rm box.doze "$(printf "/tmp/a\033[31mb\nc")"
'

test_that 'du and df count what is stored, not holes' '
    run 0 doze disk du --json box.doze /workspace &&
    python3 -c "
import json; d = json.load(open(\"out\"))[0]
assert 300000 <= d[\"stored_bytes\"] < 400000, d
assert d[\"size_bytes\"] > 5000000 and d[\"inodes\"] == 9, d" &&
    run 0 doze disk du box.doze && has out "KiB" &&
    run 0 doze disk df --json box.doze &&
    python3 -c "
import json, os; d = json.load(open(\"out\"))
assert d[\"file_bytes\"] == os.path.getsize(\"box.doze\") and d[\"used_bytes\"] < 400000, d"
'

test_that 'mkdir, mv and rm do what their namesakes do' '
    run 1 doze disk mkdir box.doze /workspace/a/b && has err "No such file" &&
    run 0 doze disk mkdir -p box.doze /workspace/a/b/c /workspace/a/b &&
    run 1 doze disk mkdir box.doze /workspace/a && has err "File exists" &&
    run 0 doze disk mv box.doze /tmp/input /workspace/a/b/moved &&
    run 0 doze disk mv box.doze /workspace/a/b/moved /memory/one /workspace/a &&
    run 0 doze disk ls box.doze /workspace/a && printf "b\nmoved\none\n" | cmp - out &&
    run 1 doze disk mv box.doze /workspace/a /workspace/a/b && has err "Invalid argument" &&
    run 1 doze disk rm box.doze /workspace/a && has err "Directory not empty" &&
    run 0 doze disk rm -r box.doze /workspace/a && run 1 doze disk ls box.doze /workspace/a &&
    run 1 doze disk rm box.doze /workspace/a && run 0 doze disk rm -f box.doze /workspace/a &&
    run 1 doze disk rm -r box.doze /workspace
'

test_that 'sql reads only, unless told otherwise' '
    run 0 doze disk sql -q box.doze "SELECT path, CAST(content AS TEXT) FROM vfs
        WHERE volume = '"'workspace' AND path = 'tree/one'"'" &&
    [ "$(cat out)" = "$(printf "tree/one\tone\\\\n")" ] &&
    run 0 doze disk sql --json box.doze "SELECT 1 AS a, NULL AS b, 1.5 AS c, x'"'00ff'"' AS d" &&
    [ "$(cat out)" = "{\"columns\":[\"a\",\"b\",\"c\",\"d\"],\"rows\":[[1,null,1.5,{\"base64\":\"AP8=\"}]],\"truncated\":false}" ] &&
    for s in "DELETE FROM node" "ATTACH '"'other.db'"' AS x" "PRAGMA journal_mode=DELETE" \
             "CREATE TABLE t(a)" "VACUUM INTO '"'copy.db'"'"; do
        run 1 doze disk sql box.doze "$s" && has err "only reading is allowed" || exit 1
    done &&
    run 1 doze disk sql box.doze "SELECT 1; SELECT 2" && has err "one statement at a time" &&
    run 0 doze disk sql --write box.doze "INSERT INTO kv(ns,k,v) VALUES(1,2,3)" &&
    run 1 doze disk sql --write box.doze "ATTACH '"'other.db'"' AS x" && [ ! -e other.db ] &&
    run 0 doze disk sql -q box.doze "SELECT v FROM kv" && [ "$(cat out)" = 3 ]
'

test_that 'check finds nothing, and finds damage' '
    run 0 doze disk check box.doze && has out "no damage found" &&
    run 0 doze disk check --quick -q box.doze && empty out &&
    cp box.doze bad.doze &&
    run 0 doze disk sql --write bad.doze "UPDATE node SET nlink = 7 WHERE ino = 2" &&
    run 1 doze disk check bad.doze && has out nlink &&
    run 1 doze disk check --json bad.doze &&
    python3 -c "
import json; d = json.load(open(\"out\"))
assert not d[\"ok\"] and d[\"count\"] >= 1 and d[\"damage\"][0][\"ino\"] == 2, d"
'

test_that 'a damaged disk whose directories loop ends every walk' '
    doze disk create loop.doze && doze disk mkdir -p loop.doze /workspace/a/b &&
    doze disk sql --write loop.doze "INSERT INTO dentry SELECT d.ino, CAST('"'loop'"' AS BLOB), 2, 4
        FROM dentry d WHERE d.name = CAST('"'b'"' AS BLOB)" &&
    run 1 doze disk check loop.doze && has out cycle &&
    run 1 doze disk ls -R loop.doze && has err "run doze disk check" &&
    run 1 doze disk du loop.doze && has err "run doze disk check" &&
    run 1 doze disk tar loop.doze -o loop.tar && [ ! -e loop.tar ] &&
    run 1 doze disk get loop.doze /workspace looped && has err "directories deep"
'

test_that 'a view without end in the place of a table ends in an error' '
    for t in xattr meta; do
        doze disk create view.doze && cp view.doze hostile.doze && rm view.doze &&
        doze disk sql --write hostile.doze "DROP TABLE $t" &&
        doze disk sql --write hostile.doze "CREATE VIEW $t(ino, name, value, k, v) AS WITH RECURSIVE
            n(a) AS (VALUES(1) UNION ALL SELECT a + 1 FROM n) SELECT a, a, a, a, a FROM n" &&
        run 1 timeout 60 doze disk check hostile.doze || exit 1
    done &&
    run 1 timeout 60 doze disk ls hostile.doze && has err hostile.doze
'

test_that 'a disk in use, a foreign file and no file are told apart' '
    sqlite3 plain.db "CREATE TABLE t(a)" && printf junk >junk &&
    run 1 doze disk ls plain.db && has err "not a sandbox file of doze: an SQLite database" &&
    run 1 doze disk ls junk && has err "nor any SQLite database" &&
    run 1 doze disk ls nothing.doze && has err "nothing.doze: No such file" &&
    [ ! -e nothing.doze-wal ] &&
    { sqlite3 box.doze "BEGIN EXCLUSIVE; SELECT count(*) FROM node;" ".shell touch locked" \
        ".shell while [ ! -e release ]; do sleep 0.05; done" >/dev/null & } &&
    while [ ! -e locked ]; do sleep 0.05; done &&
    run 1 doze disk ls box.doze && has err "another command uses it" && touch release && wait
'

test_that 'a disk that may only be read can be read' '
    [ "$(id -u)" = 0 ] || skip "needs root to become somebody else"
    cp box.doze /dev/shm/ro-$$.doze && chmod 444 /dev/shm/ro-$$.doze &&
    chmod 755 "$LIB_SCRATCH" "$LIB_SCRATCH/work" && cp "$DOZE" ./doze-copy && chmod 755 doze-copy &&
    run 0 setpriv --reuid 65534 --regid 65534 --clear-groups ./doze-copy disk ls /dev/shm/ro-$$.doze
    got=$?
    [ ! -e /dev/shm/ro-$$.doze-wal ] && cp out listing &&
    run 0 setpriv --reuid 65534 --regid 65534 --clear-groups ./doze-copy files /dev/shm/ro-$$.doze && has out workspace &&
    run 1 setpriv --reuid 65534 --regid 65534 --clear-groups ./doze-copy disk mkdir /dev/shm/ro-$$.doze /a &&
    has err "Permission denied" || got=1
    rm -f /dev/shm/ro-$$.doze*
    has listing workspace && [ $got = 0 ]
'

test_done
