#!/bin/bash
# E2B's dialect by hand, over TCP: objects, streams, uploads, pauses, other tenants, and malformed
# requests. tests/e2b/wire.py has the checks. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
port=$("$LIB_ROOT/tests/lib/free_port.py")
start --listen "127.0.0.1:$port" || exit 1
test_that 'without the setting there are no such routes' '
    api 404 GET /v2/sandboxes && api 404 POST /process.Process/Start "{}" && api 404 GET /health && [ ! -e data/e2b.key ] && stop
'
start --listen "127.0.0.1:$port" --e2b yes --e2b-templates "x=y, main = base" || exit 1
test_that 'the key of access tokens is a secret file; the owner of the socket needs no key' '
    [ "$(stat -c %a:%s data/e2b.key)" = 600:32 ] && api 200 GET /v2/sandboxes && has out "[]" && api 201 POST /v2/sandboxes "{\"templateID\":\"main\"}" && has out "\"templateID\":\"main\"" && id=$(python3 -c "import json; print(json.load(open(\"out\"))[\"sandboxID\"])") && api 204 DELETE "/sandboxes/$id"
'
test_that 'objects, streams, files, pauses, two tenants, malformed requests' '
    run 0 doze token create a --tenant alpha && a=$(cat out) && run 0 doze token create b --tenant beta && b=$(cat out) && python3 "$LIB_ROOT/tests/e2b/wire.py" "http://127.0.0.1:$port" "e2b_${a#doze_}" "e2b_${b#doze_}"
'
test_that 'access tokens outlive the daemon; a sandbox of version 1 is in the list, and is used by its access token' '
    run 0 doze token create c --tenant gamma && k=e2b_$(sed s/doze_// out) && curl -sS -H "X-API-Key: $k" -d "{\"templateID\":\"base\",\"timeout\":600}" -o out "http://127.0.0.1:$port/v2/sandboxes" && t=$(grep -oE "[a-z0-9]{20}_[0-9a-f]{64}" out) && stop && start --listen "127.0.0.1:$port" --e2b yes &&
    [ "$(curl -sS -o out -w "%{http_code}" -H "X-Access-Token: $t" "http://127.0.0.1:$port/files?path=/etc/passwd")" = 200 ] && run 0 doze create base -n own && api 200 GET /v2/sandboxes && has out "\"alias\":\"own\"" && i=$(grep -oE "sandboxID\":\"[a-z0-9]{20}\",[^}]*own" out | cut -c13-32) &&
    api 200 POST "/sandboxes/$i/connect" "{\"timeout\":60}" && t=$(grep -oE "[a-z0-9]{20}_[0-9a-f]{64}" out) && [ "$(curl -sS -o out -w "%{http_code}" -H "X-Access-Token: $t" "http://127.0.0.1:$port/files?path=/etc/passwd")" = 200 ]
'
test_that 'a short key file is refused by its name' '
    stop && echo x >data/e2b.key && run 1 timeout 30 doze daemon --e2b yes && has err e2b.key
'
test_that 'the daemon had no internal error' '! grep -E "status=500|level=(error|fatal)" daemon.log'
test_done
