#!/bin/bash
# doze image rm, gc and inspect while a daemon runs: they ask it. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
export I=/v1/images
printf '[image]\nname = two\nfrom = base\n[file /f]\ntext = x\n' >two

test_that 'rm asks the daemon that runs, which knows what stands on the image' '
    run 0 doze image build -q two && id=$(cat out) && run 0 doze create two --no-start --name web && run 1 doze image rm two && has err "remove the image two" && has err "uses it" &&
    run 0 doze rm -f web && run 0 doze image rm two && run 0 doze image ls && lacks out two && [ ! -e "data/images/files/$id" ]
'
test_that 'an image on which only a snapshot stands is not removed' '
    run 0 doze image build -q two && run 0 doze create two --name web && run 0 doze exec web -- true && run 0 doze snapshot web && snap=$(grep -o "snap_[a-z0-9]*" out | head -n 1) && run 0 doze rm -f web &&
    run 1 doze image rm two && has err "snapshot $snap uses it" && api 204 DELETE "/v1/snapshots/$snap"
'
test_that 'an image whose sandboxes have run is removed when the last one is gone, and runs when it is built again' '
    for i in 1 2; do
        run 0 doze image build -q two && run 0 doze create two --name web && run 0 doze exec web -- cat /f && has out x && run 0 doze create two --name web2 && run 0 doze exec web2 -- true &&
        run 1 doze image rm two && has err "uses it" && run 0 doze rm -f web web2 && run 0 doze image rm two || exit 1
    done
'
test_that 'gc asks the daemon: images without a name go, those in use stay' '
    sed "s/= x/= w/" two >never-run && run 0 doze image build -q never-run && two=$(cat out) && run 0 doze create two --no-start --name web && sed "s/= x/= y/" two >three && run 0 doze image build -q three && printf "[image]\nname = two\nfrom = base\n[file /g]\ntext = z\n" >four && run 0 doze image build -q four &&
    run 0 doze image gc --json && has out "removed_files" && run 0 doze image ls && has out "$two" && run 0 doze rm -f web && run 0 doze image gc --cache && has out "removed " && run 0 doze image ls && lacks out "$two" && [ -z "$(ls data/images/cache)" ]
'
test_that 'the route is the operator'"'"'s, takes what it knows, and says what is wrong' '
    api 200 POST $I/gc "{}" && has out "\"removed_bytes\":" && api 400 POST $I/gc "{\"colour\":1}" && has out "\"field\":\"colour\"" && api 400 POST "$I/gc?cache=true" &&
    run 0 doze token create t --tenant t && DOZE_URL=unix:$SOCK DOZE_TOKEN=$(grep -o "doze_[A-Za-z0-9_]*" out | head -n 1) run 1 doze image gc && has err operator
'
test_that 'DOZE_URL: inspect, ls, rm and gc ask that daemon; what only works on files says so' '
    mkdir -p elsewhere && export DOZE_DATA=$PWD/elsewhere DOZE_URL=unix:$SOCK && run 0 doze image inspect base && has out programs && run 0 doze image inspect --json base && has out program_list &&
    run 0 doze image inspect --licenses base && run 0 doze image gc && [ ! -e elsewhere/images ] && run 1 doze image rm nothing && has err nothing &&
    for c in "build two" "export base x.doze" "import x.doze" "snapshot -t x x.doze"; do run 1 doze image $c && has err "DOZE_URL names a daemon" || exit 1; done && [ ! -e x.doze ]
'
test_that 'verify asks the daemon, by its socket or by DOZE_URL, and answers as without one' '
    run 0 doze image verify --local base && cp out local && run 0 doze image verify base && cmp local out && run 0 doze image verify --local --json && cp out local && run 0 doze image verify --json && cmp local out && grep -q "event=request .*images/verify" daemon.log &&
    api 200 POST $I/verify "{\"image\":\"base\"}" && has out "\"damage\":[]" && has out "\"ok\":true" && api 400 POST $I/verify "{\"image\":\"nothing\"}" && has out "\"field\":\"image\"" && api 400 POST $I/verify "{\"colour\":1}" && has out "\"field\":\"colour\"" &&
    run 1 doze image verify nothing && has err nothing && run 0 doze token create v --tenant t && DOZE_URL=unix:$SOCK DOZE_TOKEN=$(grep -o "doze_[A-Za-z0-9_]*" out | head -n 1) run 1 doze image verify && has err operator
'
test_that 'verify over a daemon finds damage, repairs what can be made anew, and exits with 1 for what is left' '
    run 0 doze image build -q two && id=$(cat out) && f=$(echo data/images/files/${id#img_}*.manifest) && cp "$f" kept && chmod u+w "$f" && printf x >>"$f" &&
    mkdir -p away && DOZE_DATA=$PWD/away DOZE_URL=unix:$SOCK run 1 doze image verify two && [ -s out ] && cp out remote && run 1 doze image verify --local two && cmp out remote &&
    run 1 doze image verify --json two && has out "\"ok\":false" && run 1 doze image verify -q base two && cmp out remote && run 0 doze image verify base &&
    DOZE_URL=unix:$SOCK run 0 doze image verify --repair two && cmp kept "$f" && run 0 doze image verify two && has out "no damage" && run 0 doze image rm two
'
test_that 'a socket without a daemon is no daemon: the files are used' '
    run 0 doze image build -q two && kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && [ -S data/doze.sock ] && run 0 doze image rm two && run 0 doze image gc
'
test_done
