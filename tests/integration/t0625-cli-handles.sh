#!/bin/bash
# Snapshots, forks and references by the command line: listed, removed, expired.
# shellcheck disable=SC2016,SC2034 # $ inside of tests
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
web=$(doze create base -n web) || exit 1
files() { find data/snapshots -type f | wc -l; }

test_that 'snapshots: a name is one of a tenant, listed, removed exactly' '
    run 0 doze snapshot web -n s && snap=$(cat out) && run 1 doze snapshot web -n s && has err "a snapshot named \"s\" already exists: $snap, of $web" && api 409 POST "$(s /web/snapshot)" "{\"name\":\"s\"}" && has out "\"field\":\"name\"" &&
    run 0 doze snapshot web && bare=$(cat out) && run 0 doze snapshot ls -q && lines out 2 && run 0 doze snapshot ls && has out NAME && grep -q "$snap  *s  *snapshot" out &&
    run 0 doze snapshot rm s "$bare" && lines out 2 && run 0 doze snapshot ls -q && empty out && [ "$(files)" -eq 0 ] && run 1 doze snapshot rm s && has err "no snapshot" && run 0 doze snapshot web -n s -q && run 0 doze snapshot rm -q s && empty out
'
test_that 'forks: made only for --count they go with it; others are listed and removed' '
    run 0 doze fork web --count 2 && lines out 2 && branches=$(cat out) && run 0 doze fork ls -q && empty out && [ "$(files)" -eq 0 ] && for b in $branches; do run 0 doze exec $b -- true || exit 1; done &&
    run 0 doze fork web --count 1 --label kept && branches="$branches $(cat out)" && run 0 doze fork web && frk=$(cat out) && run 0 doze fork ls -q && lines out 2 && run 0 doze fork ls && has out kept && [ "$(files)" -eq 2 ] &&
    run 0 doze fork ls --json && has out "\"expires_at\":null" && run 0 doze fork rm $(doze fork ls -q) && run 0 doze fork ls -q && empty out && [ "$(files)" -eq 0 ] && run 1 doze fork rm "$frk" && has err "no fork" &&
    run 0 doze rm -qf $branches && api 201 POST "$(s /web/fork)" "{\"count\":1}" && has out "\"kept\":false" && run 0 doze rm -qf $(grep -oE "sbx_[a-z0-9]+" out | sort -u | grep -v "$web")
'
test_that 'references: made, named, listed; rm leaves the sandbox' '
    run 0 doze ref web -n r && ref=$(cat out) && run 1 doze ref web -n r && has err "a reference named \"r\" already exists" && run 0 doze attach "$ref" --json && has out "\"name\":\"web\"" && run 0 doze ref ls && has out "$ref" && has out yes &&
    run 0 doze ref rm r && run 0 doze ref ls -q && empty out && run 0 doze get web -q && run 1 doze attach "$ref" && api 400 DELETE "/v1/refs/$ref?sandbox=x" && api 404 DELETE "/v1/refs/$ref?sandbox=keep" &&
    run 2 doze share web && has err "doze share web -o FILE" && has err "doze ref web" && run 0 doze suspend web && run 0 doze share web -o public.doze && run 0 doze disk ls public.doze && has out workspace && run 2 doze share web -o a b
'
test_that 'what expires goes: row and file' '
    run 0 doze snapshot web -n short --expires 300ms && run 0 doze fork web --expires 300ms && run 0 doze ref web -n short --expires 300ms && run 0 doze snapshot web -n long --expires 24h &&
    run 0 doze snapshot ls --json && has out "\"expires_at\":\"20" && for _ in $(seq 100); do run 0 doze fork ls -q && [ ! -s out ] && break; read -rt 0.05 <> <(:) || :; done
    run 0 doze fork ls -q && empty out && run 0 doze ref ls -q && empty out && run 0 doze snapshot ls && lacks out short && has out long && [ "$(files)" -eq 1 ] && run 1 doze create --snapshot short && run 1 doze snapshot web --expires soon
'
test_that 'the name of what has expired is free at once' '
    run 0 doze snapshot web -n again --expires 1ms && run 0 doze snapshot web -n again && run 1 doze snapshot web -n again && has err "a snapshot named \"again\" already exists" &&
    run 0 doze ref web -n again --expires 1ms && run 0 doze ref web -n again && run 1 doze ref web -n again && has err "a reference named \"again\" already exists"
'
test_that 'it ends clean' 'stop'
test_done
