#!/bin/bash
# doze run: a command in a cell.
. "$(dirname "$0")/lib.sh"

# tests/lib/guest_wasm.h says what this program does
hex=$(tr -d '[:space:]' <<'END'
0061736d01000000011c0560047f7f7f7f017f60027f7f017f60017f0060000060037f7f7f0002d60106167761
73695f736e617073686f745f70726576696577310e617267735f73697a65735f676574000116776173695f736e
617073686f745f70726576696577310970726f635f65786974000216776173695f736e617073686f745f707265
766965773108617267735f676574000116776173695f736e617073686f745f70726576696577310766645f7265
6164000016776173695f736e617073686f745f70726576696577310b706f6c6c5f6f6e656f6666000016776173
695f736e617073686f745f70726576696577310866645f77726974650000030302030405030100010608017f01
41a0d1000b071302066d656d6f72790200065f737461727400060af60202bf0202027f017e230041206b220024
002000411c6a200041186a10001a0240200028021c410f4d0440200028021841a11f490d010b41e30010010b41
a00841e00810021a02400240200028021c4102490d0002400240024002400240024041a4082802002d00002201
41e3006b0e0a01070705070607070702000b200141f4006b0e0402060603060b41900829030021020340024020
0020023703102000410036020c4100200041106a41012000410c6a10030d00200028020c2201450d00410141e0
28200110070c010b0b410010010c050b03400c000b000b000b41e8304280c0e285e3e80037030041d030420137
030041e030410136020041d0304180314101200041106a10041a0c020b0340410141e00841802010070c000b00
0b410141850841031007410241800841041007410310010b41001001200041206a24000b3301017f230041106b
220324002003200236020c200320013602082000200341086a4101200341046a10051a200341106a24000b0b1d
01004180080b166572720a0068690a000000000000000060140000e803002c0f7461726765745f666561747572
6573022b0f6d757461626c652d676c6f62616c732b087369676e2d657874
END
)
printf '%s' "$hex" | sed 's/../\\x&/g' | xargs -0 printf '%b' >g.wasm
mkdir tree && cp g.wasm tree/prog && ln -s prog tree/link && chmod 755 tree/prog

test_that 'streams and the exit status are its own' '
    run 3 doze run --copy tree:/bin -- prog h && has out hi && has err err &&
    run 3 doze run --copy tree:/bin link h && has out hi &&
    printf "a\nb\n" >in && run 0 doze run -i --copy tree:/bin -- prog c <in && cmp in out
'

test_that 'without -i there is no input' '
    printf "a\nb\n" >in && run 0 doze run --copy tree:/bin -- prog c <in && [ ! -s out ]
'

test_that 'a large input and output arrive whole' '
    head -c 3000000 /dev/urandom >in && run 0 doze run -i --copy tree:/bin -- prog c <in && cmp in out
'

test_that 'what cannot be started: 127, 126, 125' '
    run 127 doze run -- nothing && has err nothing && [ ! -s out ] &&
    echo text >text && chmod 755 text && run 126 doze run --copy text:/bin/text -- text &&
    run 127 doze run --copy tree:/bin -u nobody -- prog h && has err nobody &&
    run 2 doze run --policy none -- prog && run 2 doze run --copy tree -- prog &&
    run 2 doze run --timeout soon -- prog
'

test_that 'a trap, a signal and a timeout: 128 and the signal' '
    run 132 doze run --copy tree:/bin -- prog t &&
    run 137 doze run --timeout 300ms --copy tree:/bin -- prog w && has err "longer than its --timeout" &&
    run 137 doze run --timeout 300ms --copy tree:/bin -- prog l &&
    { doze run --copy tree:/bin -- prog w & pid=$!
      until grep -q "^SigBlk:.*[1-9a-f]" /proc/$pid/status 2>/dev/null; do :; done
      kill -TERM $pid; status=0; wait $pid || status=$?; [ $status -eq 143 ]; }
'

test_that 'a reader that goes away ends it' '
    [ "$(doze run --copy tree:/bin -- prog f | head -c 100 | wc -c)" -eq 100 ]
'

test_that 'a disk in a file keeps what was copied, and can be a base' '
    run 3 doze run --file d.doze --copy tree:/bin -- prog h && [ ! -e d.doze-wal ] &&
    run 3 doze run --file d.doze -- prog h && has out hi &&
    cp d.doze before && run 3 doze run --base d.doze -- prog h && has out hi && cmp before d.doze &&
    run 3 doze run --base d.doze --file e.doze -- link h &&
    run 3 doze run --base d.doze --file e.doze -- link h &&
    run 125 doze run --file e.doze -- link h && lines err 1
'

test_that 'a program of the base is mapped when it was prepared' '
    mkdir d.doze.modules && run 0 doze wasm prepare g.wasm d.doze.modules/any && has err prepared &&
    run 3 doze run --base d.doze -- prog h && has out hi &&
    run 0 doze wasm prepare --json g.wasm x && has out "\"sha256\":\"$(sha256sum g.wasm | cut -d\  -f1)" &&
    echo text >y.wasm && run 1 doze wasm prepare y.wasm y && [ ! -e y ] && [ ! -e y.tmp ] &&
    echo junk >d.doze.modules/any && run 125 doze run --base d.doze -- prog h && has err "prepared module"
'

test_that 'a file that could not be started is not left behind' '
    run 127 doze run --file new.doze -- nothing && [ ! -e new.doze ] && [ ! -e new.doze-wal ]
'

test_done
