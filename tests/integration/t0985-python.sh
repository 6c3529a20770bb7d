#!/bin/bash
# The Python client: its wheel, its types, real sessions of its blocking and its asynchronous half, all
# bodies held against the contract by a proxy, and a daemon that dies under it. The blocks of
# docs/guide/python.md run, too. Needs `make base`; native programs need the image debian.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/clients.sh"

test_that 'the wheel is built without any other package, the same each time, and imports' '
    mkdir -p one two && python3 "$LIB_ROOT/clients/python/build_backend.py" wheel one && python3 "$LIB_ROOT/clients/python/build_backend.py" wheel two && cmp one/*.whl two/*.whl &&
    python3 -c "import zipfile, sys; names = zipfile.ZipFile(sys.argv[1]).namelist(); assert {\"doze/py.typed\", \"doze/_sync/sandbox.py\"} <= set(names) and any(n.endswith(\"/LICENSE\") for n in names), names" one/*.whl &&
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
export PYTHONPATH=$PWD/tree
session python3 -X dev "$LIB_ROOT/tests/clients/python_session.py"
test_that 'all that was started was awaited' 'lacks session.err "never awaited"'
test_done
