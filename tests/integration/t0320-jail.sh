#!/bin/bash
# Nothing hostile is parsed outside of a jail: each command that is given a disk or a
# module runs under strace, and no process may read the beginning of either before
# it has entered its filter of system calls.
. "$(dirname "$0")/lib.sh"

command -v strace >/dev/null || { echo '1..0 # SKIP there is no strace'; exit 0; }
strace -f -o trace true 2>/dev/null || { echo '1..0 # SKIP strace may not trace here'; exit 0; }

# (module (func (export "f") (result i32) (i32.const 7)))
printf '\0asm\1\0\0\0\1\5\1\140\0\1\177\3\2\1\0\7\5\1\1f\0\0\12\6\1\4\0\101\7\13' >m.wasm
doze disk create d.doze
echo hello >file
doze disk put d.doze file /workspace
doze disk tar d.doze -o a.tar

# The processes of the last trace that read a disk's or a module's first bytes
# although they were not jailed; and how many did so in a jail.
judge() {
    awk '
        /seccomp\(SECCOMP_SET_MODE_FILTER/ { jailed[$1] = 1; next }
        /(SQLite format 3|\\0asm)/ { if (jailed[$1]) good++; else print "not jailed: " $0 }
        END { print "jailed: " good + 0 }' trace
}

# jailed COMMAND...: succeeds, looks into something, and only in a jail.
jailed() {
    run 0 strace -f -qq -s 64 -o trace -e trace=read,readv,pread64,preadv,seccomp doze "$@"
    judge >verdict
    lacks verdict "not jailed" && lacks verdict "jailed: 0"
}

# Each row: the name of a command, and how to call it. Every command must be here, but
# those below: they have tests of their own, or open no file but the registry's, which
# is doze's own.
# From the second line on: they speak to a daemon, see t0550-daemon-jail.sh.
others='run|resume|fork( [a-z]+)?|snapshot [a-z]+|ref( [a-z]+)?|image [a-z]+|registry [a-z-]+|doctor|completion|help'
others="$others|daemon|create|exec|shell|ls|get|rm|rename|label|wake|suspend|freeze|archive|revive|prefetch|hold|attach"
others="$others|cp|cat|edit|files( [a-z]+)?|schedule [a-z]+|service [a-z]+|volume [a-z]+|port [a-z]+|preview [a-z]+|forward|egress [a-z]+|mcp|usage|sql|ps|logs|kill|events|sandbox [a-z]+"
others="$others|timeout|expiry|quota|token [a-z]+|tenant [a-z]+|stats|debug [a-z]+|config( [a-z]+)?|restore|replica [a-z]+|replicate|key [a-z]+"
export others="^($others)\$"
rows='disk check|d.doze
disk df|d.doze
disk du|d.doze
disk ls|-R d.doze
disk cat|d.doze workspace/file
disk get|d.doze workspace/file got
disk put|d.doze file /tmp
disk mkdir|d.doze /workspace/a
disk mv|d.doze /workspace/a /workspace/b
disk rm|-r d.doze /workspace/b
disk sql|d.doze SELECT+1
disk tar|d.doze -o b.tar
disk untar|d.doze a.tar
disk create|--image d.doze e.doze
inspect|d.doze
top|d.doze
clone|d.doze c.doze
share|d.doze s.doze
snapshot|d.doze t.doze
wasm info|m.wasm
wasm prepare|m.wasm m.prepared
wasm run|--invoke f m.wasm'

while IFS='|' read -r name words; do
    read -ra list <<<"$words"
    list=("${list[@]//+/ }")
    case $name in
    # the image or the module is hashed outside, which looks at no byte; so only
    # that somebody in a jail looks is asked for
    'disk create' | 'wasm prepare') check='run 0 strace -f -qq -s 64 -o trace -e trace=read,pread64,seccomp doze $name "${list[@]}" &&
        judge >verdict && lacks verdict "jailed: 0"' ;;
    *) check='jailed $name "${list[@]}"' ;;
    esac
    test_that "$name" "$check"
done <<<"$rows"

test_that 'run' '
    run 127 strace -f -qq -s 64 -o trace -e trace=read,readv,pread64,preadv,seccomp \
        doze run --file d.doze -- nothing &&
    judge >verdict && lacks verdict "not jailed" && lacks verdict "jailed: 0"
'

test_that 'resume' '
    run 125 strace -f -qq -s 64 -o trace -e trace=read,readv,pread64,preadv,seccomp \
        doze resume d.doze &&
    judge >verdict && lacks verdict "not jailed" && lacks verdict "jailed: 0"
'

test_that 'image import' '
    run 1 strace -f -qq -s 64 -o trace -e trace=read,readv,pread64,preadv,seccomp \
        doze image import d.doze &&
    judge >verdict && lacks verdict "jailed: 0" # it is copied and hashed outside
'

test_that 'the test can fail: a process without a jail is seen' '
    strace -f -qq -s 64 -o trace -e trace=read,pread64,seccomp cat d.doze >/dev/null &&
    judge >verdict && has verdict "not jailed"
'

test_that 'no command was forgotten' '
    doze help --all | sed -nE "s/^usage: doze ([a-z -]*[a-z]) ([[A-Z].*)?$/\1/p" |
        grep -vE "$others" | sort -u >all &&
    cut -d"|" -f1 <<<"$rows" | sort -u >tested && diff all tested
'

test_done
