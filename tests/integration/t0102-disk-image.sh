#!/bin/bash
# doze disk on a disk that stands on an image.
. "$(dirname "$0")/lib.sh"

mkdir -p base/bin
printf 'from the image\n' >base/file
head -c 200000 /dev/urandom >base/bin/big
doze disk create image.doze
doze disk put image.doze base/file base/bin /

test_that 'a disk on an image shows its files and stores only the difference' '
    run 0 doze disk create box.doze --image image.doze && has err "needs the image" &&
    run 0 doze disk ls box.doze --image image.doze && printf "bin\nfile\nmemory\ntmp\nworkspace\n" | cmp - out &&
    run 0 doze disk cat box.doze --image image.doze /bin/big && cmp out base/bin/big &&
    printf above | run 0 doze disk put --image image.doze box.doze - /file &&
    run 0 doze disk rm -r --image image.doze box.doze /bin &&
    run 0 doze disk cat --image image.doze box.doze /file && [ "$(cat out)" = above ] &&
    run 1 doze disk ls --image image.doze box.doze /bin &&
    run 0 doze disk cat image.doze /file && cmp out base/file &&
    [ "$(stat -c %s box.doze)" -le 65536 ] &&
    run 0 doze disk check --image image.doze box.doze
'

test_that 'a missing or another image is a clear error' '
    run 1 doze disk ls box.doze && has err "--image names the image" &&
    doze disk create other.doze && run 1 doze disk ls box.doze --image other.doze &&
    has err "needs the image" &&
    run 1 doze disk ls box.doze --image nothing.doze && has err "nothing.doze: No such file" &&
    run 1 doze disk create new.doze --image nothing.doze && [ ! -e new.doze ]
'

test_that 'an archive of a disk holds the image too' '
    run 0 doze disk create two.doze --image image.doze &&
    run 0 doze disk tar two.doze --image image.doze -o all.tar &&
    tar -xOf all.tar file | cmp - base/file
'

test_that 'sql sees the files of the image too, and changes nothing of it' '
    doze disk create low.doze && doze disk put low.doze base /workspace && sha256sum low.doze >before &&
    run 0 doze disk create --json sql.doze --image low.doze && empty err &&
    python3 -c "
import json, hashlib; d = json.load(open(\"out\"))
assert d[\"image_sha256\"] == hashlib.sha256(open(\"low.doze\", \"rb\").read()).hexdigest(), d
assert d[\"file\"] == \"sql.doze\" and d[\"file_bytes\"] <= 40960" &&
    printf "new\n" | run 0 doze disk put --image low.doze sql.doze - /workspace/base/new &&
    printf "changed\n" | run 0 doze disk put --image low.doze sql.doze - /workspace/base/file &&
    run 0 doze disk sql -q --image low.doze sql.doze \
        "SELECT path, CAST(content AS TEXT) FROM vfs WHERE length(content) < 100 ORDER BY path" &&
    printf "base/file\tchanged\\\\n\nbase/new\tnew\\\\n\n" | cmp - out &&
    run 0 doze disk sql -q --image low.doze sql.doze \
        "SELECT length(content) FROM vfs WHERE path = '"'base/bin/big'"'" && [ "$(cat out)" = 200000 ] &&
    run 0 doze disk sql -q --image low.doze sql.doze "SELECT count(*) > 5 FROM image.node" &&
    [ "$(cat out)" = 1 ] &&
    run 1 doze disk sql --write --image low.doze sql.doze "DELETE FROM image.node" &&
    sha256sum -c --quiet before &&
    run 1 doze disk sql --image other.doze sql.doze "SELECT 1" && has err "needs the image"
'

test_done
