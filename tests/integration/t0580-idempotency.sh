#!/bin/bash
# Idempotency-Key: a POST that comes twice is done once; also when its client had left,
# when both come at once, and over the end of the daemon. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

# keyed STATUS KEY PATH [DATA]: the answer in out, its head in head
keyed() {
    local got
    got=$(curl -sS --max-time 30 --unix-socket "$SOCK" -o out -D head -w '%{http_code}' -X POST -H "Idempotency-Key: $2" \
        --data-binary "${4:-}" "http://d$3") || return 1
    [ "$got" = "$1" ] && return 0
    echo "$3 with $2: $got, not $1"
    cat out
    return 1
}
count() { # of sandboxes
    api 200 GET "$(s)" && [ "$(grep -o '"id":"sbx_' out | wc -l)" -eq "$1" ]
}

start || exit 1
test_that 'the same key and body: one sandbox, the same answer' '
    keyed 201 k1 "$(s)" "{\"image\":\"base\",\"name\":\"one\"}" && cp out first && ! grep -qi Idempotent-Replayed head &&
    keyed 201 k1 "$(s)" "{\"image\":\"base\",\"name\":\"one\"}" && cmp out first && grep -qi "Idempotent-Replayed: true" head &&
    count 1
'
test_that 'another body, or another path: conflict' '
    keyed 409 k1 "$(s)" "{\"image\":\"base\",\"name\":\"two\"}" && has out "\"field\":\"Idempotency-Key\"" &&
    keyed 409 k1 "$(s /one/suspend)" && has out "another request" && count 1
'
test_that 'any POST: a command runs once; what failed for good fails again, what may work later is tried again' '
    keyed 200 e1 "$(s /one/exec)" "{\"shell\":\"echo x >>/workspace/n; wc -l </workspace/n\"}" && cp out first && has out "\"stdout\":\"1\\n\"" &&
    keyed 200 e1 "$(s /one/exec)" "{\"shell\":\"echo x >>/workspace/n; wc -l </workspace/n\"}" && cmp out first &&
    keyed 404 f1 "$(s /none/wake)" && keyed 404 f1 "$(s /none/wake)" && grep -qi "Idempotent-Replayed: true" head &&
    keyed 409 f2 "$(s)" "{\"image\":\"base\",\"name\":\"one\"}" && api 204 DELETE "$(s "/one?force=true")" &&
    keyed 201 f2 "$(s)" "{\"image\":\"base\",\"name\":\"one\"}"
'
test_that 'the client leaves, the command ends, and who comes back has its answer' '
    ! curl -s --max-time 0.3 --unix-socket "$SOCK" -X POST -H "Idempotency-Key: l1" -d "{\"shell\":\"sleep 1; echo done\"}" \
        "http://d/v1/sandboxes/one/exec" >/dev/null &&
    keyed 409 l1 "$(s /one/exec)" "{\"shell\":\"sleep 1; echo done\"}" && has out "\"reason\":\"in_progress\"" && has out "\"retry\":true" &&
    sleep 1.2 && keyed 200 l1 "$(s /one/exec)" "{\"shell\":\"sleep 1; echo done\"}" && has out "\"stdout\":\"done\\n\"" &&
    api 200 GET "$(s /one/exec)" && [ "$(grep -o "sleep 1; echo done" out | wc -l)" -eq 1 ]
'
test_that 'both come at once: one is done' '
    for i in 1 2 3 4; do
        curl -s --unix-socket "$SOCK" -o "out$i" -X POST -H "Idempotency-Key: p1" -d "{\"image\":\"base\",\"name\":\"par\"}" "http://d/v1/sandboxes" &
    done; wait $(jobs -p | tail -4)
    keyed 201 p1 "$(s)" "{\"image\":\"base\",\"name\":\"par\"}" && count 2
'
test_that 'what a key may be, and where it cannot be' '
    keyed 400 "a b" "$(s)" "{}" && has out "\"field\":\"Idempotency-Key\"" &&
    keyed 400 "$(printf "%0256d" 0)" "$(s)" "{}" &&
    keyed 400 t1 /v1/tokens "{\"name\":\"x\"}" && has out secret &&
    [ "$(curl -s --unix-socket "$SOCK" -o out -w "%{http_code}" -X POST -H "Accept: text/event-stream" -H "Idempotency-Key: s1" \
        -d "{\"shell\":\"true\"}" http://d/v1/sandboxes/one/exec)" = 400 ] && has out stream
'
test_that 'the answer is there after kill -9; a request that was cut off is not done twice' '
    keyed 201 k2 "$(s)" "{\"image\":\"base\",\"name\":\"kept\"}" && cp out first &&
    { curl -s --max-time 5 --unix-socket "$SOCK" -X POST -H "Idempotency-Key: cut" -d "{\"shell\":\"sleep 3\"}" \
        "http://d/v1/sandboxes/one/exec" >/dev/null & } && sleep 0.3 &&
    kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && start &&
    keyed 201 k2 "$(s)" "{\"image\":\"base\",\"name\":\"kept\"}" && cmp out first && grep -qi "Idempotent-Replayed" head &&
    keyed 409 cut "$(s /one/exec)" "{\"shell\":\"sleep 3\"}" && has out "\"reason\":\"interrupted\"" && count 3
'
test_that 'a creation that was cut off is found by the id that it was to have' '
    stop && hash=$(printf "/v1/sandboxes\n{\"image\":\"base\",\"name\":\"kept\"}" | sha256sum | cut -d" " -f1) &&
    id=$(grep -oE "sbx_[a-z0-9]+" first | head -1) && now=$(date +%s)000 &&
    sqlite3 data/registry.db "UPDATE idempotency SET http_status = 0, response = NULL WHERE id = \"k2\"" &&
    sqlite3 data/registry.db "SELECT request_sha256 FROM idempotency WHERE id = \"k2\"" >h && has h "$hash" &&
    sqlite3 data/registry.db "INSERT INTO idempotency VALUES(\"k3\", \"default\", 1, $now, $now, \"$hash\", \"sbx_0000000000000000never\", 0, NULL, ${now%000}999999)" &&
    start && keyed 201 k2 "$(s)" "{\"image\":\"base\",\"name\":\"kept\"}" && has out "$id" && count 3 &&
    keyed 409 k3 "$(s)" "{\"image\":\"base\",\"name\":\"kept\"}" && lacks out Idempotency && has out "\"field\":\"name\""
'
test_that 'keys go after a day' '
    stop && sqlite3 data/registry.db "UPDATE idempotency SET expires = 1000" && start &&
    keyed 409 k1 "$(s)" "{\"image\":\"base\",\"name\":\"one\"}" && has out "\"field\":\"name\"" &&
    for _ in $(seq 100); do
        read -rt 0.05 <> <(:) || :
    done; stop && [ "$(sqlite3 data/registry.db "SELECT count(*) FROM idempotency")" -eq 0 ]
'
test_done
