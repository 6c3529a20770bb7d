#!/bin/bash
# Programs that are compiled on this machine, in a sandbox and here: C and Rust against the kernel
# without a file of the image, Go with a runtime of its own.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux.sh"

export files=$LIB_ROOT/tests/linux
real_home=$(getent passwd "$(id -u)" | cut -d: -f6) # where compilers keep what they compiled
export real_home
mkdir made
with() { command -v "$1" >/dev/null || skip "$1 is not installed"; }

test_that 'C: threads, faults, signals, shared memory, descriptors, memory that is executed' '
    gcc -std=gnu17 -O1 -static -pthread "$files/static.c" -o made/c &&
    same ./c argument && has out "shared: 20000, its owner died: 1" && has out "inherits: 20000, its owner died: 1" &&
    has out "locks: had by 4, word 0"
'
test_that 'C, linked dynamically, as a position-independent program and not' '
    gcc -std=gnu17 -O2 -pthread "$files/static.c" -o made/c && same ./c argument &&
    gcc -std=gnu17 -O2 -pthread -no-pie "$files/static.c" -o made/c && same ./c argument &&
    gcc -std=gnu17 -O2 -pthread -static-pie "$files/static.c" -o made/c && same ./c argument
'
test_that 'Go: goroutines that are preempted, channels, timers, sockets, children, a nil pointer' '
    with go && cp "$files/static.go" . &&
    HOME=$real_home CGO_ENABLED=0 GO111MODULE=off GOTOOLCHAIN=local go build -o made/go static.go &&
    same ./go a b && has out "runtime error: invalid memory address"
'
test_that 'Rust: threads, channels, sockets, children, a panic' '
    with rustc && HOME=$real_home rustc -O -C target-feature=+crt-static -o made/rust "$files/static.rs" &&
    same ./rust a b && has out "over a socket"
'

test_done
