#!/bin/bash
# The Python client: its wheel, its types, real sessions of its blocking and its asynchronous half, all
# bodies held against the contract by a proxy, and a daemon that dies under it. The blocks of
# docs/guide/python.md run, too. Needs `make base`; native programs need the image debian.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/linux_daemon.sh"
port=$("$LIB_ROOT/tests/lib/free_port.py")
daemon="$LIB_SCRATCH/bin/doze daemon --log-level debug --listen 127.0.0.1:$port --preview-domain pv.example"
export DAEMON=$daemon DAEMON_PID=$PWD/daemon.pid DIRECT=unix:$SOCK TCP=http://127.0.0.1:$port OWN_DATA=$PWD/own
end() {
    kill -9 "$(cat daemon.pid)" 2>/dev/null
    kill "$proxy" 2>/dev/null
    [ -e own/daemon.lock ] && kill -9 "$(tr -dc 0-9 <own/daemon.lock)" 2>/dev/null
    rm -rf "$LIB_SCRATCH"
}
trap end EXIT
mkdir -m 700 own && cp -al data/images own/images
start --listen "127.0.0.1:$port" --preview-domain pv.example || exit 1
TOKEN=$(doze token create py --tenant acme -q) || exit 1
[ -e "$LINUX_IMAGES/tags/debian:latest" ] && export LINUX=debian
export TOKEN
mkfifo ready
python3 "$LIB_ROOT/tests/clients/schema_proxy.py" "$PWD/proxy.sock" "$SOCK" "$PWD/report" >ready &
proxy=$!
read -r _ <ready

test_that 'the wheel is built without any other package, the same each time, and imports' '
    mkdir -p one two && python3 "$LIB_ROOT/clients/python/build_backend.py" wheel one && python3 "$LIB_ROOT/clients/python/build_backend.py" wheel two && cmp one/*.whl two/*.whl &&
    python3 -c "import zipfile, sys; names = zipfile.ZipFile(sys.argv[1]).namelist(); assert {\"doze/py.typed\", \"doze/_sync/sandbox.py\"} <= set(names), names" one/*.whl &&
    PYTHONPATH=$(echo one/*.whl) python3 -W error -c "import doze; print(doze.Sandbox.create.__doc__)" >out && has out idempotency_key
'
test_that 'pip installs the wheel, offline' '
    python3 -m pip --version >/dev/null 2>&1 || skip "there is no pip"
    python3 -m pip install -q --disable-pip-version-check --root-user-action ignore --no-index --no-deps --target site one/*.whl >out 2>&1 && PYTHONPATH=site python3 -c "import doze; doze.Client"
'
test_that 'the blocking half has no word of asyncio, and the same methods' '
    python3 "$LIB_ROOT/clients/python/build_backend.py" tree tree && ! grep -rnE "\b(async|await|asyncio)\b" tree/doze/_sync tree/doze/_net_sync.py | grep -v "#" | grep -vE "asyncio and" &&
    PYTHONPATH=tree python3 -c "
import doze
for a in [x for x in doze.__all__ if x.startswith(\"Async\")]:
    one, two = set(dir(getattr(doze, a))), set(dir(getattr(doze, a[5:])))
    assert {n for n in one ^ two if not n.startswith(\"__\")} == set(), (a, one ^ two)"
'
test_that 'the blocks of the guide run as they stand' '
    python3 "$LIB_ROOT/tests/clients/guide_code.py" "$LIB_ROOT/docs/guide/python.md" python >guide.py && grep -c . guide.py && DOZE_URL=$DIRECT PYTHONPATH=$PWD/tree timeout 100 python3 guide.py
'
DOZE_URL=unix:$PWD/proxy.sock PYTHONPATH=$PWD/tree python3 -X dev "$LIB_ROOT/tests/clients/python_session.py" 2>session.err |
    sed -E "s/^(not ok|ok) ([0-9]+)/\1 $LIB_COUNT+\2/" | awk '{ if (match($0, /[0-9]+\+[0-9]+/)) { split(substr($0, RSTART, RLENGTH), n, "+"); sub(/[0-9]+\+[0-9]+/, n[1] + n[2]) } print; fflush() }' | tee session.tap
LIB_COUNT=$((LIB_COUNT + $(grep -cE '^(not )?ok ' session.tap)))
LIB_FAILED=$((LIB_FAILED + $(grep -c '^not ok ' session.tap)))
test_that 'the session ran to its end, and awaited all that it started' '
    has session.tap "no daemon runs" && lacks session.err "never awaited"
'
test_that 'every body was as the contract says, and there were many' '
    ! grep -v "^bodies" report && [ "$(sed -n "s/^bodies //p" report | sort -n | tail -1)" -gt 200 ]
'
test_done
