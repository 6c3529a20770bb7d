#!/bin/bash
# A prepared module beside a base that is not what its program gives is not used.
. "$(dirname "$0")/lib.sh"

guest_wasm g.wasm
mkdir tree && cp g.wasm tree/prog && chmod 755 tree/prog
export DOZE_DATA=$PWD/data

# Other bytes in the memory image, which no checksum covers: the program says "HA", not "hi".
forge() {
    python3 - "$1" <<'END'
import struct, sys
b = bytearray(open(sys.argv[1], "rb").read())
offset, size = struct.unpack_from("<QQ", b, 8 + 4 + 4 + 8 + 8 + 32 + 4 * 2 + 4 * 5 + 4 * 5 + 16)
at = b.index(b"hi", offset, offset + size)
b[at:at + 2] = b"HA"
open(sys.argv[1], "wb").write(b)
END
}
test_that 'a forged one is named and not used, each time' '
    run 3 doze run --file d.doze --copy tree:/bin -- prog h && mkdir d.doze.modules &&
    run 0 doze wasm prepare g.wasm d.doze.modules/m && forge d.doze.modules/m &&
    for _ in 1 2; do
        run 3 doze run --base d.doze -- prog h && has out hi && lacks out HA &&
        has err "the prepared module m is not used: from byte" || return 1
    done
'
test_that 'a right one is checked once and used' '
    rm d.doze.modules/m && run 0 doze wasm prepare g.wasm d.doze.modules/m &&
    run 3 doze run --base d.doze -- prog h && has out hi && lacks err module &&
    [ -e "data/modules-checked/$(sha256sum d.doze.modules/m | cut -d\  -f1)" ] &&
    run 3 doze run --base d.doze -- prog h && has out hi && lacks err module
'
test_that 'a data directory that cannot be written to does not hinder' '
    export DOZE_DATA=/proc/nowhere && run 3 doze run --base d.doze -- prog h && has out hi && lacks err module
'
test_done
