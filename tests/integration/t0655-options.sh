#!/bin/bash
# The command line against its help: each option of each command is used with an effect that a test
# checks. `option 'COMMAND --option' TEST` is one case; a new option needs a row here, or a use in another
# test of this directory. The last test reads the program's own table and names the options that no test
# uses; tests/lib/options_untested lists those that are still without one, and may only shrink.
# Needs the images base and python (make test-images).
# shellcheck disable=SC2016 # $ inside of tests
. "$(dirname "$0")/lib.sh"
images=$LIB_ROOT/build/data/images
[ -d "$images" ] || { echo "Bail out! $images is not there: run make test-images first"; exit 1; }
with_base
export DOZE_DATA=$PWD/data
mkdir data && { cp -rl "$images" data/images 2>/dev/null || cp -r --reflink=auto "$images" data/images; }
pid_in() { [ -e "$1/daemon.lock" ] && tr -dc 0-9 <"$1/daemon.lock"; }
end_daemon() { # DIRECTORY
    local pid
    pid=$(pid_in "$1") && kill -KILL "$pid" 2>/dev/null && while kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
}
trap 'end_daemon data; end_daemon other; rm -rf "$LIB_SCRATCH"' EXIT
option() { test_that "$1" "$2"; }
shown() { run 0 doze get --json "$1" && has out "$2"; } # NAME TEXT
asleep() { # FILE: a shell that waits for lines sleeps in it
    doze run --image base --file "$1" --suspend-after 100ms -- sh -c 'while :; do sleep 0.3; done' >run.out 2>&1 || [ $? -eq 75 ]
}

# --- create, sandbox create ------------------------------------------------------------------------
option 'create --policy --keep --durability --size --kind' '
    run 0 doze create base --no-start -n c-a --policy minimal --keep files --durability strict && shown c-a "\"policy\":\"minimal\"" && has out "\"keep\":\"files\"" && has out "\"durability\":\"strict\"" &&
    run 1 doze create base --no-start --kind nonsense && has err kind && run 1 doze create base --no-start --size 0 && has err size'
option 'create --timeout-action' '
    run 0 doze create base --no-start -n c-b --timeout 1h --timeout-action pause && shown c-b "\"action\":\"pause\"" && run 1 doze create base --no-start --timeout 1h --timeout-action dance && has err action'
option 'sandbox create --policy --keep --durability --size --kind --memory --no-start --no-resume' '
    run 0 doze sandbox create base --persistent --no-start --no-resume -n s-a --memory 64MiB --policy minimal --keep files --durability strict && shown s-a "\"policy\":\"minimal\"" && has out "\"keep\":\"files\"" &&
    has out "\"durability\":\"strict\"" && has out 67108864 && run 1 doze sandbox create base --no-start --kind nonsense && has err kind && run 1 doze sandbox create base --no-start --size 0 && has err size'
option 'sandbox create --idle --timeout --timeout-action --env --label' '
    run 0 doze sandbox create base --persistent -n s-b --idle 3m --timeout 5m --timeout-action pause --env A=b --label k=v && shown s-b "\"k\":\"v\"" &&
    run 0 doze exec s-b -- sh -c "echo \$A" && has out b'
option 'sandbox exec --env --workdir --user --timeout --interactive --detach' '
    echo hi >in && run 0 doze sandbox exec --env X=1 --workdir /tmp --user root --timeout 20s --interactive s-b -- sh -c "echo \$X; pwd; id -un; cat" <in &&
    [ "$(tr "\n" " " <out)" = "1 /tmp root hi " ] && run 0 doze sandbox exec --detach s-b -- true && has out exe_'
option 'shell --env --workdir --user --timeout' '
    echo "echo \$X; pwd; id -un" >in && run 0 doze shell --env X=2 --workdir /tmp --user root --timeout 20s s-b <in && has out 2 && has out /tmp && has out root'
option 'ls --kind --image' '
    run 0 doze ls -q --image base && [ -s out ] && run 0 doze ls -q --image python && empty out'
option 'wake --keep --policy' '
    run 0 doze exec -d s-b -- sleep 100 && run 0 doze suspend s-b && run 1 doze wake --policy posix s-b && has err policy && run 0 doze wake --keep files s-b && run 0 doze ps s-b && lacks out running'
option 'sandbox wake --keep --policy' '
    run 0 doze exec -d s-b -- sleep 100 && run 0 doze suspend s-b && run 1 doze sandbox wake --policy posix s-b && has err policy && run 0 doze sandbox wake --keep files s-b && run 0 doze ps s-b && lacks out running'
option 'cp --raw' '
    echo plain >plain && run 0 doze cp plain s-b:/workspace/plain && run 0 doze cp --raw s-b:/workspace/plain back && cmp plain back'
option 'logs --offset' '
    run 0 doze exec -d s-b -- echo abcdef && exe=$(cat out) && run 0 doze attach --no-stdin s-b "$exe" && run 0 doze logs --offset 3 s-b "$exe" && [ "$(cat out)" = def ]'

F=$(doze image inspect --json base | grep -o '"sha256":"[0-9a-f]*"' | head -n 1 | cut -d'"' -f4)
export F=$PWD/data/images/files/$F.doze # the image base as a file
# --- files that no daemon runs --------------------------------------------------------------------
option 'resume --image; inspect --image' '
    asleep a.doze && run 0 doze inspect --image "$F" a.doze && has out COMMAND && run 75 doze resume --image base --suspend-after 50ms a.doze'
option 'fork --image; clone --image; share --image' '
    run 75 doze fork --image base --suspend-after 50ms a.doze b.doze && run 0 doze clone --image "$F" a.doze c.doze && run 0 doze disk ls --image "$F" c.doze / && has out bin &&
    run 0 doze share --image "$F" a.doze d.doze && [ -s d.doze ]'
option 'image snapshot --image' '
    run 0 doze image snapshot --image base -t of-a a.doze && run 0 doze image inspect of-a && has out asleep'
option 'image build --files --confined' '
    mkdir -p f && echo hello >f/h && printf "[image]\nfrom = base\n[file /h]\nsource = h\n" >f/recipe && tar cf f.tar -C f . &&
    run 0 doze image build --files f.tar --confined -t conf recipe && run 0 doze run --image conf -- cat /h && has out hello'
option 'disk get, mkdir, mv, df, du, untar --image' '
    run 0 doze disk create --image "$F" e.doze &&
    run 0 doze disk mkdir --image "$F" e.doze /x && run 0 doze disk mv --image "$F" e.doze /x /y && run 0 doze disk ls --image "$F" e.doze / && has out y && lacks out x &&
    run 0 doze disk get --image "$F" e.doze /etc/passwd ./passwd && [ -s passwd ] && run 0 doze disk df --image "$F" e.doze && [ -s out ] && run 0 doze disk du --image "$F" e.doze && [ -s out ] &&
    mkdir -p t && echo u >t/u && tar cf t.tar t && run 0 doze disk untar --image "$F" e.doze <t.tar && run 0 doze disk cat --image "$F" e.doze /t/u && has out u'
option 'disk untar --links --same-owner --devices' '
    mkdir -p l && ln -sfn ../../../../etc/passwd l/out && tar --owner=1234 --group=1234 -cf l.tar l && run 0 doze disk create -q g.doze && run 1 doze disk untar g.doze <l.tar &&
    run 0 doze disk untar --links --same-owner --devices g.doze <l.tar && run 0 doze disk sql g.doze "select uid from node where uid = 1234 limit 1" && has out 1234'

# --- the registry and the daemon ------------------------------------------------------------------------
option 'registry --data --registry' '
    mkdir -p reg && run 0 doze registry register --registry "$PWD/reg/r.db" --data reg sbx_one acme && run 0 doze registry ls --data reg --registry "$PWD/reg/r.db" && has out sbx_one &&
    run 0 doze registry get --data reg --registry "$PWD/reg/r.db" sbx_one && run 0 doze registry set-state --data reg --registry "$PWD/reg/r.db" sbx_one active &&
    run 1 doze registry check --data reg --registry "$PWD/reg/r.db" && has out sbx_one && { doze registry repair --data reg --registry "$PWD/reg/r.db" >out || :; } && has out sbx_one'
mkdir -p other && { cp -rl "$images" other/images 2>/dev/null || cp -r --reflink=auto "$images" other/images; }
option 'daemon: where it listens, what it allows, how it logs' '
    { doze daemon --data other --socket "$PWD/other.sock" --registry "$PWD/other.db" --log-format json --suspend-after 300ms --freeze-after 90d --drain-timeout 5s \
        --connections 50 --connections-per-address 20 --requests-per-tenant 20 --unread-per-tenant 64MiB --unread 512MiB --plain no --cells-cpu 0 \
        --quota-sandboxes 7 --quota-warm-sandboxes 6 --quota-creations 90 --quota-creations-per-minute 80 --quota-memory 3GiB --quota-disk 5GiB 2>other.log & } &&
    export DOZE_URL=unix:$PWD/other.sock && for _ in $(seq 200); do doze ls -q >/dev/null 2>&1 && break; sleep 0.05; done && [ -s other.db ] && head -n 1 other.log | grep -q "^{" &&
    run 0 doze quota --json && has out "\"sandboxes\":7" && has out "\"warm_sandboxes\":6" && has out "\"creations\":90" && has out "\"creations_per_minute\":80" &&
    has out "\"memory_bytes\":3221225472" && has out "\"disk_bytes\":5368709120" && run 0 doze create base -n nap &&
    for _ in $(seq 200); do doze get --json nap | grep -q "\"state\":\"suspended\"" && break; sleep 0.05; done && shown nap "\"state\":\"suspended\""'
option 'token create --operator; top --image' '
    export DOZE_URL=unix:$PWD/other.sock && run 0 doze token create ops --operator && token=$(grep -o "doze_[A-Za-z0-9_]*" out | head -n 1) && DOZE_TOKEN=$token run 0 doze tenant ls &&
    run 0 doze top --count 1 --image base --json && run 0 doze wake nap'

test_that 'every option of the table is used by a test, but those of tests/lib/options_untested' '
    python3 "$LIB_ROOT/tests/lib/option_use.py" "$DOZE" "$LIB_ROOT"/tests/integration/*.sh >unused &&
    { sort unused | diff - <(sort "$LIB_ROOT/tests/lib/options_untested") || { echo "give each option marked < a case in $(basename "$0"); take out those marked >"; exit 1; }; }
'
test_done
