#!/bin/bash
# doze disk on a disk that stands on an image.
. "$(dirname "$0")/lib.sh"

mkdir -p base/bin
printf 'from the image\n' >base/file
head -c 200000 /dev/urandom >base/bin/big
doze disk create image.doze
doze disk put image.doze base/file base/bin /

test_that 'a disk on an image shows its files and stores only the difference' '
    run 0 doze disk create box.doze --image image.doze && has err "stands on the image" &&
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
    has err "stands on image" &&
    run 1 doze disk ls box.doze --image nothing.doze && has err "nothing.doze: No such file" &&
    run 1 doze disk create new.doze --image nothing.doze && [ ! -e new.doze ]
'

test_that 'an archive of a disk holds the image too' '
    run 0 doze disk create two.doze --image image.doze &&
    run 0 doze disk tar two.doze --image image.doze -o all.tar &&
    tar -xOf all.tar file | cmp - base/file
'

test_done
