#!/bin/bash
# A sandbox moves to another data directory, whose daemon goes on with it. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1

test_that 'a counter runs, sleeps, and is frozen: one file' '
    api 201 POST "$(s)" "{\"image\":\"base\",\"name\":\"lab\"}" && grep -oE "sbx_[a-z0-9]{20}" out | head -1 >id &&
    api 201 POST "$(s /lab/exec)" "{\"shell\":\"n=0; while read x; do n=\$((n+1)); echo n is \$n; done\",\"stdin\":true,\"background\":true}" &&
    grep -oE "exe_[a-z0-9]{20}" out | head -1 >exe && api 204 POST "$(s "/lab/exec/$(cat exe)/stdin")" "
" && api 200 POST "$(s /lab/suspend)" && api 200 POST "$(s /lab/freeze)" && stop && [ -s "data/cold/$(cat id).sqlite" ]
'
test_that 'registered elsewhere with the image that it names, it goes on there' '
    mkdir other && cp -a data/images other/ &&
    run 0 doze registry register --data other "$(cat id)" default "data/cold/$(cat id).sqlite" --name moved &&
    mv data old && mv other data && start && api 200 GET "$(s /moved)" && has out "\"state\":\"created\"" &&
    api 204 POST "$(s "/moved/exec/$(cat exe)/stdin")" "
" && api 204 POST "$(s "/moved/exec/$(cat exe)/close-stdin")" && api 200 POST "$(s "/moved/exec/$(cat exe)/wait")" &&
    has out "n is 1\\nn is 2\\n"
'
test_that 'without the image there: said, and nothing is lost' '
    stop && mkdir bare && run 0 doze registry register --data bare "$(cat id)" default "old/cold/$(cat id).sqlite" --name moved &&
    mv data full && mv bare data && start && api 404 POST "$(s /moved/exec)" "{\"cmd\":[\"true\"]}" && has out "image" &&
    stop && cp -a full/images data/ && start && api 200 POST "$(s /moved/exec)" "{\"cmd\":[\"true\"]}"
'
test_that 'a file that is no disk is refused, and nothing is entered' '
    stop && echo nothing >junk && run 1 doze registry register --data data sbx_00000000000000000001 default junk &&
    has err "junk" && run 1 doze registry get --data data sbx_00000000000000000001
'
test_done
