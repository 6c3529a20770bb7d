#!/bin/bash
# A disk without a free inode: snapshots, forks, sandboxes and images can be deleted.
. "$(dirname "$0")/full.sh" 64m,nr_inodes=2000
start
doze create -q base --name a >/dev/null
doze snapshot a --name first >/dev/null && doze fork a >/dev/null
mkdir tree && echo other >tree/other && doze image build -q --from base --from-dir tree -t other >/dev/null
crowd() { mkdir -p data/filler && (i=0; while : >"data/filler/$i"; do i=$((i + 1)); done) 2>/dev/null; [ "$(df --output=iavail data | tail -1)" -eq 0 ]; }

test_that 'when all inodes are taken, readiness names them' '
    crowd && level 3 && api 507 POST /v1/sandboxes "{\"image\":\"base\"}" && has out "inodes left"
'
test_that 'a snapshot can be deleted' '
    crowd && run 0 timeout 20 doze snapshot rm first && api 200 GET /v1/snapshots && lacks out "\"name\":\"first\""
'
test_that 'a fork can be deleted' '
    api 200 GET /v1/forks && fork=$(grep -o "frk_[0-9a-z]*" out | head -1) && crowd && api 204 DELETE "/v1/forks/$fork"
'
test_that 'an image can be removed, and the store tidied' '
    crowd && run 0 timeout 20 doze image rm -q other && run 0 timeout 20 doze image gc
'
test_that 'a sandbox can be deleted' '
    crowd && run 0 timeout 20 doze rm -f a && api 404 GET "$(s /a)"
'
test_that 'with room everything goes on, without a restart' '
    rm -rf data/filler && level 0 && run 0 timeout 20 doze create base --name b
'
stop
test_done
