#!/bin/bash
# doze disk tar and untar, beside GNU tar and Python's.
. "$(dirname "$0")/lib.sh"

long=$(printf 'n%.0s' {1..180})
mkdir -p "tree/$long/$long" tree/empty
printf 'content\n' >"tree/$long/$long/$long"
ln "tree/$long/$long/$long" tree/hard
ln -s "$long/$long" tree/soft
head -c 100000 /dev/urandom >tree/random
truncate -s 3000000 tree/holes
printf 'data' | dd of=tree/holes bs=1 seek=1000000 conv=notrunc status=none
mkfifo tree/pipe
touch -d '1969-12-31 23:59:58.5 UTC' tree/random
touch -d '2033-01-02 03:04:05.123456789 UTC' tree/empty

listing() { # DIR
    (cd "$1" && find . -mindepth 1 -printf '%p %y %m %n %s %T@ %l\n' | sed 's/ d \([0-9]*\) [0-9]* [0-9]*/ d \1/' | sort)
    (cd "$1" && find . -type f -exec sha256sum {} + | sort)
}

test_that 'GNU tar unpacks what tar writes' '
    run 0 doze disk create box.doze &&
    tar -C tree --format=pax -cf - . | run 0 doze disk untar -q box.doze --to /workspace &&
    empty err && run 0 doze disk check -q box.doze &&
    run 0 doze disk tar box.doze /workspace -o out.tar && empty err &&
    mkdir gnu && tar -C gnu -xpf out.tar && listing tree >want && listing gnu >got && diff want got
'

test_that 'the same with holes, and a small archive' '
    run 0 doze disk tar -S box.doze /workspace -o sparse.tar &&
    [ "$(stat -c %s sparse.tar)" -lt 300000 ] &&
    mkdir holes && tar -C holes -xpf sparse.tar && listing holes >got && diff want got &&
    python3 -c "
import tarfile
t = tarfile.open(\"sparse.tar\")
assert t.getmember(\"holes\").size == 3000000
assert t.extractfile(\"holes\").read()[1000000:1000004] == b\"data\""
'

for format in v7 ustar gnu oldgnu pax; do
    test_that "untar takes GNU tar's format $format" '
        mkdir -p small/dir && printf text >small/dir/file && ln -sf dir/file small/link &&
        run 0 doze disk create $format.doze &&
        tar -C small --format=$format -cf - . | run 0 doze disk untar $format.doze --to /workspace &&
        has err "doze: " && run 0 doze disk get $format.doze /workspace/dir "back-$format" &&
        diff -r small/dir "back-$format"
    '
done

for how in "gnu" "pax --sparse-version=0.0" "pax --sparse-version=0.1" "pax --sparse-version=1.0"; do
    test_that "untar takes sparse files of the form $how" '
        rm -f s.doze && run 0 doze disk create s.doze &&
        tar -C tree -cSf s.tar --format=$how holes && [ "$(stat -c %s s.tar)" -lt 100000 ] &&
        run 0 doze disk untar s.doze s.tar && run 0 doze disk cat s.doze /holes && cmp out tree/holes
    '
done

test_that 'archives of Python with attributes keep them' '
    python3 - <<EOF2 &&
import tarfile, io
t = tarfile.open("x.tar", "w", format=tarfile.PAX_FORMAT)
i = tarfile.TarInfo("f"); i.size = 1; i.mtime = 1.25
i.pax_headers = {"SCHILY.xattr.user.key": "value", "SCHILY.xattr.trusted.secret": "no"}
t.addfile(i, io.BytesIO(b"x")); t.close()
EOF2
    run 0 doze disk create x.doze && run 0 doze disk untar x.doze x.tar &&
    has err "loses an attribute outside user." &&
    run 0 doze disk sql -q x.doze "SELECT CAST(name AS TEXT), CAST(value AS TEXT) FROM xattr" &&
    [ "$(cat out)" = "$(printf "user.key\tvalue")" ] &&
    run 0 doze disk tar x.doze / -o y.tar &&
    python3 -c "
import tarfile
m = tarfile.open(\"y.tar\").getmember(\"f\")
assert m.pax_headers[\"SCHILY.xattr.user.key\"] == \"value\" and m.mtime == 1.25, m.pax_headers"
'

hostile() { # NAME: an archive with a good member, a bad one, a good one
    python3 - "$1" <<'EOF2'
import sys, tarfile, io
t = tarfile.open("bad.tar", "w", format=tarfile.GNU_FORMAT)
def add(name, type=tarfile.REGTYPE, link="", data=b"x"):
    i = tarfile.TarInfo(name); i.type = type; i.linkname = link
    i.size = len(data) if type == tarfile.REGTYPE else 0
    t.addfile(i, io.BytesIO(data))
add("before")
{"absolute": lambda: add("/etc/passwd"), "dots": lambda: add("a/../../up"),
 "symlink": lambda: add("s", tarfile.SYMTYPE, "../../out"),
 "hardlink": lambda: add("h", tarfile.LNKTYPE, "../../etc/passwd"),
 "through": lambda: (add("d", tarfile.DIRTYPE), add("s", tarfile.SYMTYPE, "d"), add("s/x")),
 "device": lambda: add("dev", tarfile.CHRTYPE),
 "bomb": lambda: add("big", data=b"not zero" * 40000)}[sys.argv[1]]()
add("after"); t.close()
EOF2
}

for kind in absolute dots symlink hardlink through device bomb; do
    test_that "a hostile archive ($kind) is refused whole, or its member left out" '
        hostile $kind && rm -f h.doze && run 0 doze disk create h.doze &&
        doze disk ls -R h.doze >nothing && sha256sum <h.doze >sum &&
        run 1 doze disk untar h.doze bad.tar --to /workspace --limit 100KB &&
        has err "nothing was imported" && run 0 doze disk ls -R h.doze && cmp nothing out &&
        run 0 doze disk check -q h.doze &&
        run 1 doze disk untar h.doze bad.tar --to /workspace --limit 100KB --skip-bad &&
        has err "left out" && run 0 doze disk cat h.doze /workspace/before /workspace/after &&
        [ "$(cat out)" = xx ] && run 0 doze disk check -q h.doze &&
        run 1 doze disk cat h.doze /etc/passwd
    '
done

test_that 'a broken or compressed archive is refused' '
    tar -C tree -cf good.tar random && gzip -k good.tar && head -c 50000 good.tar >cut.tar &&
    run 0 doze disk create e.doze &&
    run 1 doze disk untar e.doze good.tar.gz && has err "this is not a tar archive" &&
    run 1 doze disk untar --skip-bad e.doze cut.tar && has err "it ends early" &&
    run 0 doze disk ls e.doze && lines out 3 &&
    gzip -dc good.tar.gz | run 0 doze disk untar e.doze - && run 0 doze disk cat e.doze random &&
    cmp out tree/random
'

test_that 'what moves files says how much as JSON' '
    run 0 doze disk create --json j.doze && empty err &&
    python3 -c "
import json; d = json.load(open(\"out\")); assert d == {\"file\": \"j.doze\", \"file_bytes\": $(stat -c %s j.doze)}, d" &&
    mkdir -p some/dir && printf abc >some/file && ln -s file some/dir/link && mkfifo some/pipe &&
    run 0 doze disk put --json j.doze some /workspace && has err "left out" &&
    [ "$(cat out)" = "{\"files\":1,\"directories\":2,\"links\":1,\"skipped\":1,\"bytes\":3}" ] &&
    run 0 doze disk get --json j.doze /workspace/some some2 &&
    [ "$(cat out)" = "{\"files\":1,\"directories\":2,\"links\":1,\"skipped\":0,\"bytes\":3}" ] &&
    run 0 doze disk tar --json j.doze /workspace -o j.tar &&
    [ "$(cat out)" = "{\"members\":4,\"skipped\":0,\"archive_bytes\":$(stat -c %s j.tar)}" ] &&
    run 2 doze disk tar --json j.doze && has err "requires -o" &&
    run 0 doze disk untar --json j.doze j.tar --to /tmp && empty err &&
    [ "$(cat out)" = "{\"members\":4,\"skipped\":0,\"bytes\":3}" ]
'

test_that 'on a terminal, get and tar show how much is left' '
    command -v script >/dev/null || skip "needs script(1)"
    head -c 40000000 /dev/urandom >large && run 0 doze disk create t.doze && run 0 doze disk put t.doze large / &&
    mkfifo drain && { (exec 3<drain; sleep 0.6; cat <&3 >/dev/null) & } &&
    script -qec "TERM=xterm doze disk tar t.doze >drain" /dev/null >typed </dev/null && wait &&
    grep -Eq "tar  [0-9]+ %  [0-9.]+ [KM]?i?B of 38 MiB" typed
'

test_that 'tar writes over nothing, and not to a terminal' '
    run 1 doze disk tar e.doze -o good.tar && has err "File exists" &&
    if command -v script >/dev/null; then
        script -qec "doze disk tar e.doze" /dev/null >typed </dev/null || true; has typed "archive to a terminal"
    fi
'

test_that 'Ctrl-C in the middle of untar leaves nothing behind' '
    run 0 doze disk create i.doze && mkfifo slow &&
    { doze disk untar i.doze slow 2>interrupted & pid=$!; exec 7>slow; } &&
    cat good.tar good.tar good.tar | head -c 90000 >&7 && sleep 0.3 && kill -TERM $pid &&
    { wait $pid; [ $? -ne 0 ]; } && exec 7>&- && run 0 doze disk ls i.doze && lines out 3 &&
    run 0 doze disk check -q i.doze
'

test_that 'with SOURCE_DATE_EPOCH the same commands make the same bytes' '
    mkdir -p repeat/sub && echo text >repeat/sub/f && touch -d @5 repeat/sub/f repeat/sub &&
    tar -C repeat -cf repeat.tar sub && export SOURCE_DATE_EPOCH=7 &&
    for i in 1 2; do
        doze disk create -q r$i.doze && doze disk untar -q r$i.doze repeat.tar && sleep 0.01
    done && cmp r1.doze r2.doze &&
    run 0 doze disk sql r1.doze "SELECT DISTINCT ctime FROM node" && has out 7000000000 && lacks out 70000000001 &&
    export SOURCE_DATE_EPOCH=soon && run 1 doze disk create bad.doze && has err SOURCE_DATE_EPOCH &&
    [ ! -e bad.doze ]
'

# The note is negative, or 0 if the cell noticed the end of its input in time to remove the stage.
test_that 'untar that is killed leaves nothing, also for who only reads' '
    run 0 doze disk create k.doze && head -c 9000000 /dev/urandom >many && mkfifo pipe &&
    { doze disk untar k.doze pipe 2>killed & pid=$!; exec 7>pipe; } &&
    tar -cf - many | head -c 8000000 >&7 && sleep 0.3 && kill -KILL $pid &&
    { wait $pid; [ $? -ne 0 ]; } && exec 7>&- &&
    doze disk sql -q k.doze "SELECT v <= 0 FROM meta WHERE k = '"'untar'"'" >noted && [ "$(cat noted)" = 1 ] &&
    run 0 doze disk check -q k.doze && run 0 doze disk ls k.doze && lines out 3 &&
    doze disk sql -q k.doze "SELECT v FROM meta WHERE k = '"'untar'"'" >noted && [ "$(cat noted)" = 0 ] &&
    run 0 doze disk check -q k.doze
'

test_done
