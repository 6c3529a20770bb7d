#!/bin/bash
# doze run: programs that know WASI only, and reactors.
. "$(dirname "$0")/lib.sh"

# section ID HEX...: a section, its size filled in (below 128 bytes)
section() {
    local id=$1 hex
    shift
    hex=$(printf '%s' "$@" | tr -d ' ')
    printf '%s%02x%s' "$id" $((${#hex} / 2)) "$hex"
}
module() { printf '%s' 0061736d01000000 "$@" | sed 's/../\\x&/g' | xargs -0 printf '%b'; }

types=$(section 01 04 600000 60017f00 60027f7f017f 6000017f)
memory=$(section 05 01 0001)
p1=16776173695f736e617073686f745f7072657669657731 # wasi_snapshot_preview1
prestat=0e66645f707265737461745f676574             # fd_prestat_get
exit=0970726f635f65786974                          # proc_exit
imports=$(section 02 02 $p1 $prestat 0002 $p1 $exit 0001)

mkdir -p tree/bin
# _start: exit(fd_prestat_get(N, 0) + its length, which is at 4)
for n in 3 4; do
    module "$types" "$imports" "$(section 03 01 00)" "$memory" \
        "$(section 07 02 066d656d6f7279 0200 065f7374617274 0002)" \
        "$(section 0a 01 10 00 410$n 4100 1000 4104 280200 6a 1001 0b)" >tree/bin/pre$n
done
# _initialize: g = 40; run: g + 2
reactor=$(section 03 02 00 03)$(section 06 01 7f01 4100 0b)
module "$types" "$reactor" \
    "$(section 07 02 0b5f696e697469616c697a65 0000 0372756e 0001)" \
    "$(section 0a 02 06 00 4128 2400 0b 07 00 2300 4102 6a 0b)" >tree/bin/both
module "$types" "$reactor" "$(section 07 01 0372756e 0001)" \
    "$(section 0a 02 06 00 4128 2400 0b 07 00 2300 4102 6a 0b)" >tree/bin/run
module "$types" "$reactor" "$(section 07 01 0372756d 0001)" \
    "$(section 0a 02 06 00 4128 2400 0b 07 00 2300 4102 6a 0b)" >tree/bin/none
# run: host.call(0, 0, 0, 0) + 100
module "$(section 01 02 60047f7f7f7f017f 6000017f)" \
    "$(section 02 01 04686f7374 0463616c6c 0000)" "$(section 03 01 01)" \
    "$(section 07 01 0372756e 0001)" \
    "$(section 0a 01 10 00 4100 4100 4100 4100 1000 41e400 6a 0b)" >tree/bin/door
chmod 755 tree/bin/*

test_that 'a program that knows WASI only has the root as its one preopen' '
    run 1 doze run --copy tree/bin:/bin -- pre3 && empty err &&
    run 8 doze run --copy tree/bin:/bin -- pre4
'

test_that 'wasm run gives it the directories that were named, no more' '
    run 8 doze wasm run tree/bin/pre3 && mkdir d &&
    run 2 doze wasm run --dir d:ab tree/bin/pre3 && run 8 doze wasm run --dir d:ab tree/bin/pre4
'

test_that 'a reactor: _initialize, then run, whose result is the status' '
    run 42 doze run --copy tree/bin:/bin -- both &&
    run 2 doze run --copy tree/bin:/bin -- run &&
    run 126 doze run --copy tree/bin:/bin -- none && has err "not a program that doze can run"
'

test_that 'host.call answers that nobody is there' '
    run 99 doze run --copy tree/bin:/bin -- door
'

test_done
