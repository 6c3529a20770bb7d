#!/bin/bash
# Quotas of tenants and tokens: what is over them is refused with the quota's name, before
# anything is made; a guest that writes too much is told so; they survive the daemon.
# Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

quota() { # JSON: of the tenant default
    api 200 PATCH /v1/tenants/default "{\"quotas\":$1}"
}
new() { # STATUS NAME [FIELDS]
    api "$1" POST "$(s)" "{\"image\":\"base\",\"name\":\"$2\"${3:-}}"
}
over() { # QUOTA: the last answer says so
    has out '"code":"quota_exceeded"' && has out "\"field\":\"$1\""
}
used() { # NAME NUMBER
    api 200 GET /v1/tenants/self && grep -qE "\"usage\":\{[^}]*\"$1\":$2[,}]" out && return 0
    cat out
    return 1
}

start || exit 1
test_that 'what a tenant uses, what it may, and the defaults' '
    api 200 GET /v1/tenants/self && has out "\"id\":\"default\"" && has out "\"sandboxes\":100000" && has out "\"disk_bytes\":null" &&
    new 201 a && used sandboxes 1 && used warm_sandboxes 1 && used creations 0 &&
    api 200 POST "$(s /a/suspend)" && used warm_sandboxes 0 && used memory_bytes 0 &&
    run 0 doze quota && has out warm_sandboxes && has out 2000
'
test_that 'what is no quota is refused, and nothing is changed' '
    api 400 PATCH /v1/tenants/default "{\"quotas\":{\"sandboxen\":1}}" && has out "\"field\":\"quotas.sandboxen\"" &&
    api 400 PATCH /v1/tenants/default "{\"quotas\":{\"sandboxes\":-1}}" && has out "\"field\":\"quotas.sandboxes\"" &&
    api 400 PATCH /v1/tenants/default "{\"quotas\":{\"sandboxes\":\"many\"}}" && api 400 PATCH /v1/tenants/default "{\"quotas\":7}" &&
    api 400 GET "/v1/tenants/a%20b" && api 200 GET /v1/tenants/self && has out "\"sandboxes\":100000"
'
test_that 'sandboxes' '
    quota "{\"sandboxes\":2}" && new 201 b && new 429 c && over sandboxes && has out "is 2, and 2 are in use" && has out "\"retry\":false" &&
    api 404 GET "$(s /c)" && used sandboxes 2 && used creations 0 &&
    api 201 POST "$(s /a/snapshot)" "{\"name\":\"sn\"}" &&
    api 429 POST "$(s)" "{\"snapshot\":\"sn\",\"name\":\"c\"}" && over sandboxes &&
    api 429 POST "$(s /a/clone)" "{}" && over sandboxes &&
    api 204 DELETE "$(s "/b?force=true")" && used sandboxes 1 && used warm_sandboxes 0 &&
    api 201 POST "$(s /a/clone)" "{\"name\":\"c\"}" && used sandboxes 2 && api 204 DELETE "$(s "/c?force=true")" &&
    api 201 POST "$(s)" "{\"snapshot\":\"sn\",\"name\":\"c\"}" && used sandboxes 2 && used creations 0 && api 204 DELETE "$(s "/c?force=true")"
'
test_that 'sandboxes that are awake: creations, wakes and commands are refused; asleep is as many as one likes' '
    quota "{\"sandboxes\":\"default\",\"warm_sandboxes\":1}" && new 201 b && new 429 c && over warm_sandboxes && api 404 GET "$(s /c)" &&
    new 201 c ",\"start\":false" && api 429 POST "$(s /c/exec)" "{\"shell\":\"true\"}" && over warm_sandboxes &&
    api 429 POST "$(s /a/wake)" && over warm_sandboxes && api 200 GET "$(s /a)" && has out "\"state\":\"suspended\"" && has out "\"error\":null" &&
    api 200 POST "$(s /b/exec)" "{\"shell\":\"true\"}" && api 200 GET "$(s "/a/files/list?path=/")" &&
    api 200 POST "$(s /b/suspend)" && api 200 POST "$(s /a/wake)" && kill -9 "$(cell_of)" && until_state a suspended &&
    api 200 POST "$(s /c/exec)" "{\"shell\":\"true\"}" && used warm_sandboxes 1 && api 204 DELETE "$(s "/c?force=true")"
'
test_that 'schedules of a tenant; a token has no such quota' '
    add() { api "$1" POST "$(s /b/schedules)" "{\"name\":\"$2\",\"every\":\"24h\",\"cmd\":[\"true\"]}"; } &&
    quota "{\"schedules\":1}" && add 201 one && used schedules 1 && add 429 two && over schedules && api 204 DELETE "$(s /b/schedules/one)" && used schedules 0 && add 201 two && quota "{\"schedules\":\"default\"}" && add 201 three &&
    api 204 DELETE "$(s /b/schedules/two)" && api 204 DELETE "$(s /b/schedules/three)" && run 1 doze token create many --quota schedules=5 && has err "quotas.schedules"
'
test_that 'memory of those awake, and creations in a minute' '
    quota "{\"warm_sandboxes\":\"default\",\"memory_bytes\":314572800}" &&
    new 201 m ",\"memory\":\"200MiB\"" && used memory_bytes 209715200 && new 429 n ",\"memory\":\"200MiB\"" && over memory_bytes &&
    new 201 n ",\"memory\":\"100MiB\"" && api 204 DELETE "$(s "/m?force=true")" && api 204 DELETE "$(s "/n?force=true")" && used memory_bytes 0 &&
    quota "{\"memory_bytes\":\"unlimited\",\"creations_per_minute\":1}" && new 201 m &&
    got=$(curl -s --unix-socket "$SOCK" -D head -o out -w "%{http_code}" -d "{\"image\":\"base\"}" http://d/v1/sandboxes) && [ "$got" = 429 ] &&
    has out "\"code\":\"rate_limited\"" && has out "\"retry\":true" && grep -qi "^Retry-After: [0-9]" head && ! grep -qi "^Retry-After: 0" head &&
    quota "{\"creations_per_minute\":\"default\",\"creations\":0}" && new 429 x && over creations && quota "{\"creations\":\"default\"}" &&
    api 204 DELETE "$(s "/m?force=true")"
'
test_that 'disk space: a guest that writes too much is told EDQUOT; files over the API; then nothing is made' '
    api 200 GET /v1/tenants/self && quota "{\"disk_bytes\":8000000}" && new 201 w && sleep 2.2 &&
    api 200 POST "$(s /w/exec)" "{\"shell\":\"dd if=/dev/urandom of=/workspace/big bs=1000000 count=20 2>&1\"}" &&
    has out "\"exit_code\":1" && has out "uota" &&
    got= && head -c 500000 /dev/urandom >upload &&
    for i in $(seq 20); do
        got=$(curl -sS --unix-socket "$SOCK" -o out -w "%{http_code}" -T upload "http://d/v1/sandboxes/w/files?path=/workspace/up$i") && [ "$got" = 201 ] || break
    done # what was left at the last measuring may still be taken
    { [ "$got" = 507 ] || [ "$got" = 429 ] || { echo "upload: $got"; cat out; false; }; } && has out "uota" &&
    api 200 POST "$(s /w/exec)" "{\"shell\":\"cd /workspace; rm -f big up*; for i in 1 2 3 4 5 6 7 8; do dd if=/dev/urandom of=b bs=1000000 count=4 && break; sleep 1; done; echo ok >small && cat small\"}" &&
    has out "ok\\n" && api 200 POST "$(s /w/suspend)" && quota "{\"disk_bytes\":2000000}" && sleep 1.5 &&
    new 429 y && over disk_bytes && api 429 POST "$(s /w/snapshot)" "{}" && over disk_bytes &&
    quota "{\"disk_bytes\":\"unlimited\"}" && api 200 POST "$(s /w/exec)" "{\"shell\":\"dd if=/dev/urandom of=/workspace/big bs=1000000 count=12 && echo fine\"}" && has out "fine\\n"
'
test_that 'a token has quotas of its own, of what it made' '
    api 201 POST /v1/tokens "{\"name\":\"t\",\"quotas\":{\"sandboxes\":1}}" && token=$(grep -oE "doze_[0-9a-f]+" out) &&
    api 400 POST /v1/tokens "{\"name\":\"u\",\"quotas\":{\"x\":1}}" && has out "\"field\":\"quotas.x\"" &&
    ask() { curl -s --unix-socket "$SOCK" -o out -w "%{http_code}" -H "Authorization: Bearer $token" "$@"; } &&
    [ "$(ask -d "{\"image\":\"base\",\"name\":\"t1\"}" http://d/v1/sandboxes)" = 201 ] &&
    [ "$(ask -d "{\"image\":\"base\",\"name\":\"t2\"}" http://d/v1/sandboxes)" = 429 ] && over sandboxes && has out "token tok_" &&
    [ "$(ask http://d/v1/tenants/self)" = 200 ] && has out "\"token\":{\"quotas\":{\"sandboxes\":1" &&
    [ "$(ask http://d/v1/tenants/other)" = 404 ] &&
    [ "$(ask -X PATCH -d "{\"quotas\":{}}" http://d/v1/tenants/default)" = 403 ] && new 201 t2
'
test_that 'they are as they were after a restart, and after kill -9' '
    quota "{\"sandboxes\":50}" &&
    api 200 GET "$(s)" && n=$(grep -o "\"id\":\"sbx_" out | wc -l) && stop && start --quota-warm-sandboxes 3 &&
    used sandboxes "$n" && has out "\"sandboxes\":50" && has out "\"warm_sandboxes\":3" && used warm_sandboxes 0 &&
    kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && start && used sandboxes "$n" && has out "\"sandboxes\":50" &&
    run 0 doze quota --set sandboxes=default --set disk_bytes=4GiB && has out 4294967296 && has out 100000 &&
    run 0 doze quota acme --set warm_sandboxes=unlimited && run 1 doze quota --set x=1 && has err "unknown quota"
'
test_that 'a token has quotas from its beginning, and tenants are listed with what they have' '
    run 2 doze token create q --tenant listed --quota sandboxes && has err "--quota must be QUOTA=VALUE" &&
    run 1 doze token create q --tenant listed --quota sandboxen=1 && has err "sandboxen" && run 1 doze token create q --tenant listed --quota sandboxes=many && has err "quotas.sandboxes" &&
    run 0 doze token create q --tenant listed --quota sandboxes=1 --quota memory_bytes=1GiB && token=$(cat out) && export DOZE_TOKEN=$token &&
    DOZE_URL=unix:$SOCK run 0 doze create base --no-start --name only && DOZE_URL=unix:$SOCK run 1 doze create base --no-start && has err "sandboxes" &&
    DOZE_URL=unix:$SOCK run 0 doze quota --json && has out "\"memory_bytes\":1073741824" &&
    DOZE_URL=unix:$SOCK run 1 doze tenant ls && has err "operator" && unset DOZE_TOKEN &&
    run 0 doze tenant ls && has out "TENANT" && grep -qE "^listed +1 of 100000 +0 of " out && grep -qE "^default " out && run 0 doze tenant ls -q && has out listed &&
    run 0 doze tenant ls --json && has out "\"id\":\"listed\"" && has out "\"warm_sandboxes\":" &&
    api 200 GET "/v1/tenants?limit=1" && has out "\"next_cursor\":\"tenant:acme\"" && api 200 GET "/v1/tenants?limit=1&cursor=tenant:acme" && has out "\"id\":\"default\""
'
stop
test_done
