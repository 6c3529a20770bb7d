#!/bin/bash
# Tokens: who has one is its tenant and nobody else; made, listed, used, revoked.
# Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

# as TOKEN STATUS METHOD PATH [DATA]: like api, with a token; headers in head
as() {
    local want=$2 got data=()
    [ $# -lt 5 ] || data=(--data-binary "$5")
    got=$(curl -sS --max-time 30 --unix-socket "$SOCK" -D head -o out -w '%{http_code}' \
        -H "Authorization: Bearer $1" -X "$3" "${data[@]}" "http://d$4") || return 1
    [ "$got" = "$want" ] && return 0
    echo "$3 $4: $got, not $want"
    cat out
    return 1
}

test_that 'a token is made by the operator, and shown once' '
    start && run 0 doze token create ci --tenant acme --expires 30d && acme=$(cat out) && echo "$acme" >acme &&
    [[ $acme =~ ^doze_[0-9a-f]{64}$ ]] && run 0 doze token create b --tenant beta && cp out beta &&
    run 0 doze token ls && has out "ci" && has out "acme" && has out "in 29d" && lacks out "$acme" &&
    run 0 doze token ls --json --tenant acme && lacks out beta && lacks out "$acme" && lacks out sha256 &&
    ! grep -rq "${acme#doze_}" data
'
test_that 'what a token says wrong is refused by name' '
    api 400 POST /v1/tokens "{\"tenant\":\"acme\"}" && has out "\"field\":\"name\"" &&
    api 400 POST /v1/tokens "{\"name\":\"x\",\"tenant\":\"a/b\"}" && has out "\"field\":\"tenant\"" &&
    api 400 POST /v1/tokens "{\"name\":\"x\",\"scope\":\"all\"}" && has out "\"field\":\"scope\"" &&
    api 404 DELETE /v1/tokens/none && run 1 doze token revoke none && has err "no token"
'
test_that 'who has it is its tenant, also by the CLI' '
    a=$(cat acme) && b=$(cat beta) &&
    as "$a" 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"web\"}" && has out "\"tenant\":\"acme\"" &&
    as "$a" 200 GET "$(s /web)" && as "$b" 404 GET "$(s /web)" &&
    as "$b" 200 GET "$(s)" && has out "\"sandboxes\":[]" &&
    as "$b" 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"web\",\"start\":false}" &&
    export DOZE_URL=unix:$SOCK && DOZE_TOKEN=$a run 0 doze ls && has out web && lines out 2 &&
    run 0 doze token ls && has out "just now" || has out "s ago"
'
test_that 'the branches of its fork are its own' '
    a=$(cat acme) && as "$a" 201 POST "$(s /web/fork)" "{\"count\":2}" && [ "$(grep -o "\"tenant\":\"acme\"" out | wc -l)" -eq 3 ] &&
    as "$a" 200 GET "$(s)" && [ "$(grep -o "\"id\":\"sbx_" out | wc -l)" -eq 3 ]
'
test_that 'what is the operator'"'"'s is not the tenant'"'"'s' '
    a=$(cat acme) &&
    for r in "GET /metrics" "GET /instances" "GET /v1/tokens" "POST /v1/tokens" "DELETE /v1/tokens/ci" \
        "DELETE /v1/images/base" "POST /v1/images"; do
        as "$a" 403 $r "{}" && has out "permission_denied" || exit 1
    done
    as "$a" 200 GET /v1/images && as "$a" 200 GET /healthz && as "$a" 200 GET /readyz
'
test_that 'what is no token is told so, and nothing more' '
    a=$(cat acme) && : >heads &&
    for t in "" x doze_ "${a:0:68}" "${a}0" "$(tr 0-9 1-90 <acme)" "$(tr a-f A-F <acme)" "$a $a" "$a,x" "$(head -c 20000 /dev/zero | tr "\\0" a)"; do
        as "$t" 401 GET "$(s)" && has head "WWW-Authenticate: Bearer" && has head "invalid_token" &&
            sed "s/req_[a-z0-9]*//" out >>heads && echo >>heads || exit 1
    done
    [ "$(sort -u heads | wc -l)" -eq 1 ] &&
    curl -sS --unix-socket "$SOCK" -o out -w "%{http_code}" -H "Authorization: Basic $a" http://d/v1/sandboxes >code && [ "$(cat code)" = 401 ]
'
test_that 'a token that is revoked, or has expired, is of no use from that moment' '
    a=$(cat acme) && run 0 doze token create short --tenant acme --expires 1s && t=$(cat out) &&
    as "$t" 200 GET "$(s)" && run 0 doze token revoke ci && empty out && as "$a" 401 GET "$(s)" &&
    read -rt 1.2 <> <(:) || : ; as "$t" 401 GET "$(s)" && run 0 doze token ls && lacks out short && lacks out "$a"
'
test_that 'tokens outlive the daemon' '
    stop && start && b=$(cat beta) && as "$b" 200 GET "$(s /web)" && as "$(cat acme)" 401 GET "$(s)" && stop
'
test_done
