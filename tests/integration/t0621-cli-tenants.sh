#!/bin/bash
# Whose sandbox a name means: a bare one is of the caller's own tenant.
# shellcheck disable=SC2016,SC2034 # $ inside of tests
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
token=$(doze token create t --tenant acme) || exit 1
as() { DOZE_TOKEN=$token "$@"; } # as acme
acme=$(as doze create base -n web --no-start) && only=$(as doze create base -n only --no-start) || exit 1

test_that 'a bare name of another tenant only is nothing to the operator, and the error says how to say it' '
    run 1 doze get web && has err "tenant default has no sandbox \"web\"; tenant acme has one: use acme/web or $acme" &&
    run 1 doze rm -f web && run 0 doze get "$acme" -q && run 1 doze cp /dev/null web:/workspace/x && run 125 doze exec web -- true && has err "acme/web" &&
    api 404 GET "$(s /web)" && api 404 DELETE "$(s "/web?force=true")" && run 0 as doze get web -q && [ "$(cat out)" = "$acme" ]
'
test_that 'two tenants with the same name: each its own' '
    run 0 doze create base -n web && own=$(cat out) && run 0 doze get web -q && [ "$(cat out)" = "$own" ] && run 0 as doze get web -q && [ "$(cat out)" = "$acme" ] &&
    run 0 doze get acme/web -q && [ "$(cat out)" = "$acme" ] && run 0 doze get default/web -q && [ "$(cat out)" = "$own" ] && run 0 doze get "$acme" -q && [ "$(cat out)" = "$acme" ] &&
    api 200 GET "$(s /acme%2Fweb)" && has out "$acme" && run 1 as doze get default/web && has err "there is no sandbox \"default/web\"" && run 0 as doze get acme/web -q
'
test_that 'TENANT/NAME with files, snapshots, forks and commands' '
    echo hello >f && run 0 doze cp f acme/web:/workspace/f && run 0 as doze cat web:/workspace/f && has out hello && run 1 doze cat web:/workspace/f &&
    run 0 doze cat acme/web:/workspace/f && has out hello && run 0 doze exec acme/web -- cat /workspace/f && has out hello &&
    run 0 doze snapshot acme/web -n s && snap=$(cat out) && run 0 as doze create --snapshot s -n copy --no-start && run 1 doze create --snapshot s && run 0 doze fork acme/web &&
    api 201 POST "$(s)" "{\"snapshot\":\"acme/s\",\"name\":\"mine\",\"start\":false}" && has out "\"tenant\":\"default\"" && run 0 doze rm -qf mine && run 0 as doze rm -qf copy
'
test_that 'a file counts before TENANT/NAME' '
    mkdir -p acme && : >acme/web && run 1 doze snapshot acme/web to.doze && lacks err "TARGET is for a file" && rm -r acme && run 2 doze snapshot acme/web to.doze && has err "TARGET is for a file"
'
test_that 'an ambiguous beginning lists its candidates, each with its tenant; of another tenant nothing is said' '
    run 1 doze get sbx_ && has err "\"sbx_\" is ambiguous; it matches sbx_" && has err "$acme (acme)" && has err "$only (acme)" && has err "(default)" &&
    run 1 as doze get sbx_ && has err "$acme (acme)" && lacks err default && run 1 doze get nothing && has err "there is no sandbox \"nothing\"" && api 409 GET "$(s /sbx_)"
'
test_that 'ls shows TENANT where more than one is listed' '
    run 0 doze ls && head -1 out | grep -q TENANT && grep -q "acme .*only" out && run 0 as doze ls && lacks out TENANT &&
    run 0 doze ls -q && lines out 3 && has out "$acme" && run 0 doze rm -qf web && run 0 doze ls && lacks out TENANT && run 0 doze rm -qf acme/web "$only"
'
test_that 'it ends clean' 'stop'
test_done
