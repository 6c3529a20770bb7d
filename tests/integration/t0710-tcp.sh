#!/bin/bash
# TCP and TLS: who is let in, whom the client believes, what a certificate's change does, and
# what becomes of streams when their token does. Needs `make base` and openssl.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"

export port=$((20000 + $$ % 20000))
certificate() { # NAME DAYS
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days "$2" -subj "/CN=$1" \
        -addext "subjectAltName=DNS:localhost,IP:127.0.0.1" -keyout "$1.key" -out "$1.pem" 2>/dev/null
}
# tcp STATUS PATH [CURL OPTION...]
tcp() {
    local want=$1 path=$2 got
    shift 2
    got=$(curl -sS --max-time 30 -o out -D head -w '%{http_code}' "$@" "$path") || return 1
    [ "$got" = "$want" ] && return 0
    echo "$path: $got, not $want"
    cat out
    return 1
}

test_that 'without TLS it listens on this machine only, unless it is told otherwise' '
    run 1 doze daemon --listen 0.0.0.0:$port && has err "others could read the traffic" &&
    run 1 doze daemon --listen nowhere && has err "HOST:PORT" &&
    run 1 doze daemon --listen ::1:$port && has err "brackets" &&
    run 1 doze daemon --tls-certificate none.pem --listen 127.0.0.1:$port && has err "tls.key" &&
    run 1 doze daemon --tls-certificate none.pem --tls-key none.key --listen 127.0.0.1:$port && has err "none.pem"
'
test_that 'over TCP a token is needed, for all but being there' '
    start --listen "127.0.0.1:$port, 127.0.0.1:$((port + 1))" --connections-per-address 20 &&
    run 0 doze token create t --tenant acme && token=$(cat out) && echo "$token" >token &&
    tcp 401 http://127.0.0.1:$port/v1/sandboxes && has head "WWW-Authenticate: Bearer realm" && has out unauthenticated &&
    tcp 200 http://127.0.0.1:$((port + 1))/healthz && lacks out version && tcp 401 http://127.0.0.1:$port/metrics &&
    tcp 200 http://127.0.0.1:$port/v1/sandboxes -H "Authorization: bearer $token" &&
    DOZE_URL=http://127.0.0.1:$port DOZE_TOKEN=$token run 0 doze ls && DOZE_URL=http://127.0.0.1:$port run 1 doze ls && has err "a token is required"
'
test_that 'who fails too often has to wait, and who has a token has not' '
    token=$(cat token) && : >codes &&
    for i in $(seq 40); do curl -s -o /dev/null -w "%{http_code}\n" -H "Authorization: Bearer x$i" http://127.0.0.1:$port/v1/sandboxes >>codes; done
    grep -q 429 codes && [ "$(grep -c 401 codes)" -le 22 ] && tcp 429 http://127.0.0.1:$port/v1/sandboxes && has head "Retry-After" &&
    tcp 200 http://127.0.0.1:$port/v1/sandboxes -H "Authorization: Bearer $token"
'
test_that 'an address has so many connections and no more, and the owner comes in' '
    fds= && for i in $(seq 30); do exec {fd}<>/dev/tcp/127.0.0.1/$port && fds="$fds $fd"; done
    ! curl -s --max-time 5 -o /dev/null http://127.0.0.1:$port/healthz && api 200 GET /healthz &&
    for fd in $fds; do exec {fd}>&-; done; read -rt 0.2 <> <(:) || :
    tcp 200 http://127.0.0.1:$port/healthz
'
test_that 'a stream is cut off when its token is revoked, or expires' '
    u=http://127.0.0.1:$port/v1/events && run 0 doze token create gone --tenant acme && gone=$(cat out) &&
    { curl -sN --max-time 20 -H "Authorization: Bearer $gone" -H "Accept: text/event-stream" $u >a & } && pid=$! && s=$SECONDS &&
    for _ in $(seq 50); do [ -s a ] && break; read -rt 0.1 <> <(:) || :; done
    kill -0 $pid && run 0 doze token revoke gone && { wait $pid || :; } && run 0 doze token create late --tenant acme --expires 1s && late=$(cat out) &&
    { curl -sN --max-time 20 -H "Authorization: Bearer $late" -H "Accept: text/event-stream" $u >b || :; } && [ -s b ] &&
    [ $((SECONDS - s)) -lt 15 ]
'
test_that 'TLS: 1.2 and 1.3, verified, and nothing older' '
    stop && certificate one 10 && start --listen 127.0.0.1:$port --tls-certificate "$PWD/one.pem" --tls-key "$PWD/one.key" &&
    token=$(cat token) && u=https://localhost:$port &&
    tcp 200 $u/v1/sandboxes --cacert one.pem -H "Authorization: Bearer $token" && tcp 200 $u/healthz --cacert one.pem --tls-max 1.2 &&
    ! curl -s $u/healthz && ! curl -s --max-time 5 http://127.0.0.1:$port/healthz &&
    for v in tls1 tls1_1; do openssl s_client -connect 127.0.0.1:$port -$v -cipher ALL:@SECLEVEL=0 </dev/null >s 2>&1 && exit 1; done
    openssl s_client -connect 127.0.0.1:$port -tls1_2 -cipher AES128-SHA:AES128-GCM-SHA256 </dev/null >s 2>&1 && exit 1
    openssl s_client -connect 127.0.0.1:$port -tls1_3 </dev/null 2>&1 | grep -q "TLS_AES_128_GCM_SHA256"
'
test_that 'the commands ask over https: whole bodies, commands, a terminal'"'"'s stream' '
    export DOZE_URL=https://localhost:$port DOZE_TOKEN=$(cat token) && run 1 doze ls && has err "certificate" &&
    export SSL_CERT_FILE=$PWD/one.pem && run 0 doze create --image base --name tls && run 0 doze exec tls -- echo hello && has out hello &&
    head -c 5000000 /dev/urandom >big && run 0 doze cp big tls:/workspace/big && run 0 doze cp tls:/workspace/big back && cmp big back &&
    printf "typed\n" | doze exec -i tls -- cat >cat.out && has cat.out typed &&
    cat big | doze exec -i tls -- cat >cat.out && cmp big cat.out
'
test_that 'SIGHUP takes a new certificate, and keeps the old one when that is no good' '
    certificate two 20 && cp two.pem one.pem.new && cp one.pem old.pem && cp two.key one.key && cp two.pem one.pem &&
    printf "[log]\nlevel = debug\n" >unused && kill -HUP "$(cat daemon.pid)" && read -rt 0.5 <> <(:) || :
    openssl s_client -connect 127.0.0.1:$port </dev/null 2>/dev/null | grep "CN = two" &&
    echo broken >one.pem && kill -HUP "$(cat daemon.pid)" && read -rt 0.5 <> <(:) || :
    openssl s_client -connect 127.0.0.1:$port </dev/null 2>/dev/null | grep "CN = two" && has daemon.log certificate_not_reloaded && stop
'
test_that 'TLS stays on when its settings go, and that is said' '
    certificate four 20 && printf "[tls]\ncertificate = %s\nkey = %s\n" "$PWD/four.pem" "$PWD/four.key" >tls.ini && : >daemon.log &&
    start --listen 127.0.0.1:$port --config tls.ini && tcp 200 https://localhost:$port/healthz --cacert four.pem &&
    : >tls.ini && kill -HUP "$(cat daemon.pid)" && for _ in $(seq 100); do grep -q config_reloaded daemon.log && break; read -rt 0.05 <> <(:) || :; done
    has daemon.log "event=setting_needs_restart setting=tls.certificate" && tcp 200 https://localhost:$port/healthz --cacert four.pem && stop
'
test_done
