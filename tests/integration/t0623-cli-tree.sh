#!/bin/bash
# `doze cp -r`: what a hostile guest has in its tree, and what a venv has in it.
# shellcheck disable=SC2016 # $ inside of tests
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
doze create base -n web >/dev/null || exit 1
in_guest() { doze exec web -- sh -ec "$1"; }

test_that 'set-id bits do not come along, and neither do devices and pipes' '
    in_guest "mkdir -p /workspace/t/d && cd /workspace/t && echo x >suid && chmod 6755 suid && echo y >d/f && chmod 2755 d && chmod 640 d/f && ln d/f hard && { mkfifo pipe || true; } && { mknod dev c 1 3 || true; }" &&
    run 0 doze cp -r web:/workspace/t out.d && [ "$(stat -c %a out.d/suid)" = 755 ] && [ "$(stat -c %a out.d/d)" = 755 ] && [ "$(stat -c %a out.d/d/f)" = 640 ] && [ "$(cat out.d/d/f out.d/hard)" = "$(printf "y\ny")" ] &&
    [ ! -e out.d/pipe ] && [ ! -e out.d/dev ] && [ -z "$(find out.d -name ".doze*")" ] && [ "$(find out.d -not -type f -not -type d | wc -l)" -eq 0 ]
'
test_that 'no tar is needed for it' '
    mkdir bin && ln -s "$DOZE" bin/doze && (PATH=$PWD/bin run 0 "$DOZE" cp -r web:/workspace/t notar) && [ -f notar/d/f ] && rm -r notar
'
test_that 'a link out of the tree is refused, left out or kept, and never followed' '
    in_guest "mkdir /workspace/l && cd /workspace/l && ln -s /etc abs && mkdir a && ln -s ../a/x a/in && ln -s ../../up a/up && echo x >a/x" &&
    run 1 doze cp -r web:/workspace/l out.l && has err "is a symbolic link out of the tree" && has err "links keep" && [ ! -L out.l/abs ] &&
    run 0 doze cp -r --links skip web:/workspace/l out.s && has err "left out" && [ ! -L out.s/abs ] && [ ! -L out.s/a/up ] && [ "$(cat out.s/a/in)" = x ] &&
    run 0 doze cp -r --links=keep web:/workspace/l out.k && [ "$(readlink out.k/abs)" = /etc ] && [ "$(readlink out.k/a/up)" = ../../up ] && run 2 doze cp -r --links x web:/workspace/l out.x
'
test_that 'a link that is here already is not written through' '
    mkdir -p victim to && echo mine >victim/f && ln -s ../victim to/d && run 1 doze cp -r web:/workspace/t/. to && has err "a file or a symbolic link exists where" && [ "$(cat victim/f)" = mine ] &&
    rm to/d && ln -s ../victim/f to/suid && run 0 doze cp -r web:/workspace/t/. to && [ "$(cat victim/f)" = mine ] && [ ! -L to/suid ] && [ "$(cat to/suid)" = x ]
'
test_that 'into a sandbox: an absolute link, as of every venv, stays a link' '
    mkdir -p venv/bin venv/lib && ln -s /usr/bin/python3 venv/bin/python3 && ln -s lib venv/lib64 && echo p >venv/lib/p && run 0 doze cp -r venv web:/workspace/venv &&
    in_guest "readlink /workspace/venv/bin/python3; cat /workspace/venv/lib64/p" >got && [ "$(cat got)" = "$(printf "/usr/bin/python3\np")" ] &&
    run 0 doze cp -r --links keep web:/workspace/venv back && diff <(cd venv && find . -printf "%P %l\n" | sort) <(cd back && find . -printf "%P %l\n" | sort)
'
test_that 'a tree that is refused leaves no directory behind' '
    mkdir -p bad/$(printf "d/%.0s" $(seq 300)) && run 1 doze cp -r bad web:/workspace/bad && has err "directories deep" && has err "nothing of bad was copied" && run 0 doze files web:/workspace -q && lacks out bad &&
    run 1 doze cp -r bad web:/workspace/more/of/it && run 0 doze files web:/workspace -q && lacks out more && rm -r bad &&
    run 1 doze cp -r nothing web:/workspace/none && has err "nothing" && run 0 doze files web:/workspace -q && lacks out none
'
test_that 'it ends clean' 'stop'
test_done
