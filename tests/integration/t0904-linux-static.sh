#!/bin/bash
# Programs that are compiled on this machine, in a sandbox and here: C against the kernel, with and
# without files of the image.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux.sh"

export files=$LIB_ROOT/tests/linux
mkdir made

test_that 'C: threads, faults, signals, shared memory, descriptors, memory that is executed' '
    gcc -std=gnu17 -O1 -static -pthread "$files/static.c" -o made/c &&
    same ./c argument && has out "shared: 20000, its owner died: 1"
'
test_that 'C, linked dynamically, as a position-independent program and not' '
    gcc -std=gnu17 -O2 -pthread "$files/static.c" -o made/c && same ./c argument &&
    gcc -std=gnu17 -O2 -pthread -no-pie "$files/static.c" -o made/c && same ./c argument &&
    gcc -std=gnu17 -O2 -pthread -static-pie "$files/static.c" -o made/c && same ./c argument
'

test_done
