#!/bin/bash
# No command lets what a guest, a file or an image chose steer the terminal of the person who looks
# at it: each that prints such text is run on a terminal. Needs `make base` and python3.
# shellcheck disable=SC2016,SC2034 # $ inside of tests
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
command -v python3 >/dev/null || { echo '1..0 # SKIP there is no python3'; exit 0; }

# calm COMMAND...: its output on a terminal has the bad text, and none of it raw: no ESC but for
# colours and for lines that are drawn again, no BEL, no C1, in UTF-8 or not.
cat >calm.py <<'PY'
import os, pty, re, sys
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
got = b""
while True:
    try:
        piece = os.read(fd, 4096)
    except OSError:
        break
    got += piece
os.waitpid(pid, 0)
own = re.sub(rb"\x1b\[[0-9;]*m|\x1b\[K|\x1b\[H\x1b\[J", b"", got)
text = own.decode("utf-8", "surrogateescape")
bad = [c for c in text if (c < " " and c not in "\r\n\t") or "\x7f" <= c <= "\x9f" or "\udc80" <= c <= "\udcff"]
if bad or b"PWN" not in got:
    print(*sys.argv[1:], "->", bad or "the text is not there", repr(got[-600:]))
    sys.exit(1)
PY
calm() { python3 calm.py "$@" </dev/null; }
# The title of a window, a bell, C1 in UTF-8 (CSI) and by itself, DEL.
bad=$(printf 'a\033]0;PWN\007\302\2331m\2332m\177z')
# The same in text that must be UTF-8.
utf=$(printf 'a\033]0;PWN\007\302\2331m\177z')

cat >spoil <<'SH'
cd /workspace && printf x >"$1" && mkdir "d$1" && ln -s "$1" l && printf '%s \2332m\n' "$1" >f && cat f && cat f >&2
SH
start || exit 1
test_that 'a sandbox with such names and words' '
    run 0 doze create base -n web && run 0 doze exec web -- sh -c "$(cat spoil)" sh "$utf"
'
while read -r words; do
    test_that "doze $words" "calm doze $words"
done <<'END2'
files web:/workspace
files --json web:/workspace
cat web:/workspace/f
cp web:/workspace/f -
cat "web:/workspace/no$bad"
cp "web:/workspace/no$bad" .
files rm "web:/workspace/no$bad"
files mv "web:/workspace/no$utf" /b
files mkdir "web:/workspace/f/$utf"
sql web "select path from vfs where path like '%PWN%'"
sql --json web "select '$utf'"
sql web "select 1 as \"$utf\""
sql --json web "select 1 as \"$utf\""
sql web "select * from \"$utf\""
sql --json web "select * from \"$utf\""
logs web
ps -a web
ps -a --json web
exec --json web -- cat /workspace/f
exec web -- "/no/$utf"
exec --json web -- "/no/$utf"
exec -u "$utf" web -- true
exec -w "/$utf" web -- true
label web "k=$utf"
label web "k$utf=v"
get "$utf"
get --json "$utf"
create -n "$utf" base
create "$utf"
rm "$utf"
events "$utf"
END2
test_that 'doze label, get and ls with such a label' '
    printf "{\"labels\":{\"k\":\"a\\\\u001b]0;PWN\\\\u0007\\\\u009b1m\\\\u007fz\"}}" >body &&
    if api 200 PATCH "$(s /web)" @body; then
        calm doze label web && calm doze label --json web && calm doze get web && calm doze get --json web && calm doze ls --json
    fi
'
test_that 'doze events --json' '
    calm doze events --json "$utf"
'
test_that 'it ends clean' 'stop'

test_that 'a disk with such names' '
    mkdir tree && printf "%s\n" "$bad" >"tree/$bad" && ln -s "$bad" tree/l && cp tree/"$bad" tree/f && run 0 doze disk create d.doze && run 0 doze disk put d.doze tree /t
'
while read -r words; do
    test_that "doze $words" "calm doze $words"
done <<'END2'
disk ls d.doze /t
disk ls -l d.doze /t
disk ls --json d.doze /t
disk cat d.doze /t/f
disk cat d.doze "/t/no$bad"
disk du d.doze "/t/$bad"
disk du --json d.doze "/t/$bad"
disk sql d.doze "select '$utf'"
disk sql --json d.doze "select '$utf'"
disk sql d.doze "select 1 as \"$utf\""
disk sql --json d.doze "select 1 as \"$utf\""
disk sql d.doze "select * from \"$utf\""
disk rm d.doze "/t/no$bad"
disk mv d.doze "/t/no$bad" /b
disk mkdir d.doze "/t/f/$bad"
disk get d.doze "/t/no$bad" .
disk tar -o x.tar d.doze "/no$bad"
disk ls "no$bad.doze"
inspect "no$bad.doze"
image inspect "no$bad"
image import "no$bad"
image rm "no$bad"
wasm info "no$bad"
registry get "no$bad"
END2
test_that 'doze disk cat --raw, and to a file: the bytes' '
    python3 -c "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)" doze disk cat --raw d.doze /t/f >got </dev/null && has got "$(printf "\033")]0;PWN" &&
    run 0 doze disk cat d.doze /t/f && cmp out tree/f
'
# A module that exports, imports and is called something bad.
cat >module.py <<'PY'
import sys
bad = "a\x1b]0;PWN\x07\u009b1m\x7fz".encode()
def leb(n): return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + leb(n >> 7)
def name(b): return leb(len(b)) + b
def section(i, b): return bytes([i]) + leb(len(b)) + b
sys.stdout.buffer.write(b"\0asm\1\0\0\0" + section(1, b"\1\x60\0\0") +
    section(2, b"\1" + name(bad) + name(bad) + b"\0\0") + section(3, b"\1\0") +
    section(7, b"\1" + name(bad) + b"\0\1") + section(10, b"\1\2\0\x0b") + section(0, name(b"name") + b"\0" + leb(len(name(bad))) + name(bad)))
PY
python3 module.py >m.wasm
for words in 'wasm info m.wasm' 'wasm info --json m.wasm' 'wasm run m.wasm' 'wasm run --json m.wasm "$utf"' 'run -- "/no/$utf"'; do
    test_that "doze $words" "calm doze $words"
done
test_done
