#!/bin/bash
# The command line against its help: each option of each command is used with an effect that a test
# checks. `option 'COMMAND --option' TEST` is one case; a new option needs a row here, or a use in another
# test of this directory. The last test reads the program's own table and names the options that no test
# uses.
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
trap 'end_daemon data; end_daemon other; end_daemon third; rm -rf "$LIB_SCRATCH"' EXIT
option() { test_that "$1" "$2"; }
shown() { run 0 doze get --json "$1" && has out "$2"; } # NAME TEXT
asleep() { # FILE: a shell that waits for lines sleeps in it
    doze run --image base --file "$1" --suspend-after 100ms -- sh -c 'while :; do sleep 0.3; done' >run.out 2>&1 || [ $? -eq 75 ]
}

# --- create, sandbox create ------------------------------------------------------------------------
option 'create --policy --keep --durability --size --kind' '
    run 0 doze create base --no-start -n c-a --policy minimal --keep files --durability strict && shown c-a "\"policy\":\"minimal\"" && has out "\"keep\":\"files\"" && has out "\"durability\":\"strict\"" &&
    run 1 doze create base --no-start --kind nonsense && has err kind && run 1 doze create base --no-start --size 0 && has err size'
option 'usage --from --to --step --tenant --csv' '
    run 0 doze usage --csv --from 2020-01-01T00:00:00Z --to 2020-01-02T00:00:00Z --step 1h && has out "from,to,state" && run 0 doze usage --json --tenant default --from 2020-01-01T00:00:00Z --to 2020-01-02T00:00:00Z --step 12h && has out "2020-01-01T12:00:00.000Z"'
printf '[s3]\nendpoint = ftp://bucket.example\n' >endpoint.ini # an error that only this file can cause
option 'replica ls --config' 'run 1 doze replica ls --config endpoint.ini s3://bucket/box && has err ftp://bucket.example'
option 'replica status --config' 'run 1 doze replica status --config endpoint.ini s3://bucket/box && has err ftp://bucket.example'
option 'replica verify --config' 'run 1 doze replica verify --config endpoint.ini s3://bucket/box && has err ftp://bucket.example'
option 'replica prune --config' 'run 1 doze replica prune --config endpoint.ini s3://bucket/box && has err ftp://bucket.example'
option 'replica push --config' 'doze disk create -q pushed.doze && run 1 doze replica push --config endpoint.ini pushed.doze s3://bucket/box && has err ftp://bucket.example'
option 'create --timeout-action' '
    run 0 doze create base --no-start -n c-b --timeout 1h --timeout-action pause && shown c-b "\"action\":\"pause\"" && run 1 doze create base --no-start --timeout 1h --timeout-action dance && has err action'
option 'create --ttl-max-age --ttl-idle --expires' '
    run 0 doze create base --no-start -n c-c --ttl-max-age 7d --ttl-idle 1d --expires 2099-01-01T00:00:00Z && shown c-c "\"ttl_idle_ms\":86400000" && run 2 doze create base --no-start --ttl-idle soon && has err duration'
option 'sandbox create --ttl-max-age --ttl-idle --expires' '
    run 0 doze sandbox create base --persistent --no-start -n s-exp --ttl-max-age 7d --ttl-idle 1d --expires 2099-01-01T00:00:00Z && shown s-exp "\"date\":\"2099-01-01T00:00:00.000Z\""'
option 'expiry --ttl-max-age --ttl-idle --expires --none' '
    run 0 doze expiry c-a --ttl-max-age 7d --ttl-idle 1d --expires 2099-01-01T00:00:00Z && shown c-a "\"ttl_max_age_ms\":604800000" && run 0 doze expiry c-a --none && has out never'
option 'port open --public --protocol --json -q' '
    run 0 doze port open c-a 80 --public --protocol ws --json && has out "\"public\":true" && has out "\"protocol\":\"ws\"" && run 0 doze port open c-a 81 -q && has out /81/ && run 0 doze port ls c-a --json && has out "\"target\":81" && run 0 doze port ls c-a -q && has out 80 && run 0 doze port close c-a 80'
option 'preview token --name --json -q' '
    run 0 doze preview token c-a 81 --name one --json && has out "\"name\":\"one\"" && run 0 doze preview token c-a 81 -q && has out doze_ && run 0 doze preview ls c-a --json && has out prv_ && run 0 doze preview ls c-a -q && has out prv_ && run 0 doze preview url c-a 81 && has out /81/ && run 0 doze preview rm c-a 81 one'
option 'create --port, sandbox create --port' '
    run 0 doze create base --no-start -n c-p --port 80 --port 81:public && shown c-p "\"target\":81,\"protocol\":\"http\",\"public\":true" && run 0 doze sandbox create base --persistent --no-start -n s-p --port 82 && shown s-p "\"target\":82"'
option 'schedule add --cron --zone --every --at --missed --overlap --workdir --user --timeout' '
    run 0 doze schedule add c-a cr --cron "0 3 * * *" --zone UTC --missed all --overlap queue --workdir /tmp --user root --timeout 5m true && run 0 doze schedule add c-a ev --every 9h true && run 0 doze schedule add c-a once --at 2099-01-01T00:00:00Z true &&
    run 0 doze schedule ls c-a --json && has out "\"missed\":\"all\"" && has out "\"overlap\":\"queue\"" && has out "\"timeout_ms\":300000" && has out "\"every_ms\":32400000" && has out "2099-01-01" && has out "\"cwd\":\"/tmp\"" && has out "\"user\":\"root\"" &&
    run 0 doze schedule ls -q && has out sch_ && run 0 doze schedule history c-a cr --json && run 0 doze schedule history c-a cr -q && run 1 doze schedule add c-a x --cron "0 25 * * *" true && has err hour'
option 'volume cp --json -q, export --path -q, import --path --json -q, du --json -q' '
    run 0 doze volume create v-o --size 2MiB && mkdir -p v-o/d && echo x >v-o/d/f && tar -C v-o -cf v-o.tar . && run 0 doze volume import v-o v-o.tar --json && has out "\"members\"" && run 0 doze volume import v-o v-o.tar --path /p -q &&
    run 0 doze volume du v-o --json && has out "\"names\"" && run 0 doze volume du v-o /p/d -q && run 0 doze volume cp v-o v-p --json && has out "\"name\":\"v-p\"" && run 0 doze volume cp v-o v-q -q && has out v-q &&
    run 0 doze volume export v-o v-x.tar --path /p/d -q && tar -tf v-x.tar >out && has out f && run 0 doze volume rm v-o v-p v-q'
option 'volume create --size --json -q, create --volume, sandbox create --volume' '
    run 0 doze volume create v-a --size 2MiB --json && has out "\"size_bytes\":2097152" && run 0 doze volume create v-b -q && has out v-b && run 0 doze volume ls -q && run 0 doze volume ls --json && has out v-a && run 0 doze volume get v-a --json && run 0 doze volume get v-a -q &&
    run 0 doze create base --no-start -n v-c --volume v-a:/a:ro:/sub --volume v-b:/b && shown v-c "\"path\":\"/b\"" && has out "\"subpath\":\"/sub\"" && run 2 doze create base --no-start --volume v-a && has err "NAME:PATH" && run 1 doze volume create v-d --size 1 && has err size &&
    run 0 doze sandbox create base --persistent --no-start -n v-e --volume v-b:/b && shown v-e "\"path\":\"/b\""'
option 'service add, service ls, service status, service start, service stop, service restart, create --services' '
    run 0 doze create base --no-start -n c-s && run 0 doze service add c-s one --restart no --ready-shell true --ready-timeout 5m --stop-signal INT --grace 3s --workdir /tmp --user root --env A=b --json sleep 1000 && has out "\"stop_signal\":\"INT\"" && has out "\"grace_ms\":3000" && has out "\"timeout_ms\":300000" && has out "\"cwd\":\"/tmp\"" && has out "\"A\":\"b\"" && has out "\"restart\":\"no\"" &&
    run 0 doze service add c-s two --needs one --ready-http 80/x -q sleep 1000 && has out two && run 0 doze service add c-s three --ready-port 80 true && run 0 doze service add c-s four --ready-log hi true && run 2 doze service add c-s five --ready-port x true && has err "must be a port" && run 2 doze service add c-s five --ready-http /x true && run 2 doze service add c-s five --env A true &&
    run 0 doze service ls c-s --json && has out "\"path\":\"/x\"" && has out "\"log\":\"hi\"" && run 0 doze service ls c-s -q && has out four && run 0 doze service status c-s one --json && has out asleep && run 0 doze service rm c-s four &&
    run 0 doze service stop c-s one --json && has out "\"enabled\":false" && run 0 doze service start c-s one --json && has out "\"enabled\":true" && run 0 doze service restart c-s one --json && has out one && run 0 doze rm -f c-s &&
    echo "[{\"name\":\"x\",\"cmd\":[\"true\"]}]" >services.json && run 0 doze create base --no-start -n c-t --services services.json && shown c-t "\"name\":\"x\"" && run 2 doze create base --no-start --services none.json && has err services && run 0 doze sandbox create base --persistent --no-start -n c-u --services services.json'
option 'schedule run --json -q' '
    run 0 doze schedule run c-a ev --json && has out run_ && run 0 doze schedule run c-a ev -q && has out run_ && run 0 doze schedule add c-a q --every 9h --json true && run 0 doze schedule add c-a r --every 9h -q true && run 0 doze schedule rm c-a q'
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
option 'exec --trace; sandbox exec --trace' '
    run 125 doze exec --trace s-b -- true && has err "of kind wasm" && run 125 doze sandbox exec --trace s-b -- true && has err "of kind wasm"'
option 'cp --limit' '
    mkdir -p limited && head -c 5000 /dev/urandom >limited/f && run 0 doze cp -r limited s-b:/workspace/limited && run 1 doze cp -r --limit 4KB s-b:/workspace/limited few && has err "more than 4000 bytes" && [ ! -e few/f ] && run 0 doze cp -r --limit 5KB s-b:/workspace/limited all && cmp limited/f all/f'
option 'disk get --limit' '
    head -c 5000 /dev/urandom >some && run 0 doze disk create -q limit.doze && run 0 doze disk put limit.doze some / && run 1 doze disk get --limit 4KB limit.doze /some few.out && has err "more than 4000 bytes" && [ ! -e few.out ] && run 0 doze disk get --limit 5KB limit.doze /some all.out && cmp some all.out'
option 'cp --raw' '
    echo plain >plain && run 0 doze cp plain s-b:/workspace/plain && run 0 doze cp --raw s-b:/workspace/plain back && cmp plain back'
option 'logs --offset --tail' '
    run 0 doze exec -d s-b -- echo abcdef && exe=$(cat out) && run 0 doze attach --no-stdin s-b "$exe" && run 0 doze logs --offset 3 s-b "$exe" && [ "$(cat out)" = def ] && run 0 doze logs --tail 1 s-b "$exe" && [ "$(cat out)" = abcdef ]'

F=$(doze image inspect --json base | grep -o '"sha256":"[0-9a-f]*"' | head -n 1 | cut -d'"' -f4)
export F=$PWD/data/images/files/$F.doze # the image base as a file
# --- files that no daemon runs --------------------------------------------------------------------
option 'resume --image; inspect --image' '
    asleep a.doze && run 0 doze inspect --image "$F" a.doze && has out COMMAND && run 75 doze resume --image base --suspend-after 50ms a.doze'
option 'run --cpu; resume --cpu; fork --cpu' '
    run 0 doze run --image base --cpu host -- true && run 125 doze run --image base --cpu 486 -- true && has err "x86-64-v2" && cp a.doze cpu.doze && run 125 doze resume --cpu 486 --image base cpu.doze &&
    run 75 doze resume --image base --cpu host --suspend-after 50ms cpu.doze && run 75 doze fork --image base --cpu host --suspend-after 50ms cpu.doze cpu2.doze'
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
    run 2 doze daemon --data other --cpu x86-64-v9 && { doze daemon --data other --cpu host --socket "$PWD/other.sock" --registry "$PWD/other.db" --log-format json --suspend-after 300ms \
        --quota-sandboxes 7 --quota-warm-sandboxes 6 --quota-creations 90 --quota-creations-per-minute 80 --quota-memory 3GiB --quota-disk 5GiB --quota-schedules 77 2>other.log & } &&
    export DOZE_URL=unix:$PWD/other.sock && for _ in $(seq 200); do doze ls -q >/dev/null 2>&1 && break; sleep 0.05; done && [ -s other.db ] && head -n 1 other.log | grep -q "^{" &&
    run 0 doze quota --json && has out "\"sandboxes\":7" && has out "\"warm_sandboxes\":6" && has out "\"creations\":90" && has out "\"creations_per_minute\":80" && has out "\"schedules\":77" &&
    has out "\"memory_bytes\":3221225472" && has out "\"disk_bytes\":5368709120" && run 0 doze create base -n nap &&
    for _ in $(seq 200); do doze get --json nap | grep -q "\"state\":\"suspended\"" && break; sleep 0.05; done && shown nap "\"state\":\"suspended\""'
option 'token create --operator; top --image' '
    export DOZE_URL=unix:$PWD/other.sock && run 0 doze token create ops --operator && token=$(grep -o "doze_[A-Za-z0-9_]*" out | head -n 1) && DOZE_TOKEN=$token run 0 doze tenant ls &&
    run 0 doze top --count 1 --image base --json && run 0 doze wake nap'

# --- terminals, branches, what is below ----------------------------------------------------------------
typed() { script -qec "stty rows 33 cols 77; $1" /dev/null >out 2>&1 </dev/null; } # COMMAND, with a terminal of 33 rows
option 'sandbox exec --tty' '
    typed "doze sandbox exec --tty s-b -- stty size" && has out "33 77"'
option 'attach --tty: the command gets the size of this terminal' '
    run 0 doze exec -d -t s-b -- sh -c "until [ \"\$(stty size)\" = \"33 77\" ]; do sleep 0.1; done; echo as-wide; exit 5" && exe=$(cat out) &&
    { typed "doze attach --tty s-b $exe" || [ $? -eq 5 ]; } && has out as-wide'
option 'run --tty, resume --tty, fork --tty' '
    { typed "doze run -t --image base --file tty.doze --suspend-after 300ms -- sh -c \"while :; do stty size; sleep 0.1; done\"" || [ $? -eq 75 ]; } && has out "33 77" &&
    { typed "doze fork --tty --image base --suspend-after 300ms tty.doze tty2.doze" || [ $? -eq 75 ]; } && has out "33 77" &&
    { typed "doze resume --tty --image base --suspend-after 300ms tty.doze" || [ $? -eq 75 ]; } && has out "33 77"'
option 'fork --base; resume --base; image snapshot --base' '
    { doze run --base "$DOZE_BASE" --file on-base.doze --suspend-after 100ms -- sh -c "while :; do sleep 0.3; done" >run.out 2>&1 || [ $? -eq 75 ]; } && base=$DOZE_BASE && unset DOZE_BASE &&
    run 75 doze resume --base "$base" --suspend-after 50ms on-base.doze && run 75 doze fork --base "$base" --suspend-after 50ms on-base.doze on-base2.doze && [ -s on-base2.doze ] &&
    run 125 doze fork --suspend-after 50ms on-base.doze none.doze && has err "was not given" && run 0 doze image snapshot --base "$base" -t of-b on-base.doze && run 0 doze image inspect of-b && has out asleep'
option 'cat, edit, sql, files rm, files mkdir, files mv --image' '
    run 0 doze files mkdir --image base ./e.doze:/d && run 0 doze cat --image base ./e.doze:/etc/passwd && has out root && run 0 env EDITOR="cp passwd" doze edit --image base ./e.doze:/d/a &&
    run 0 doze files mv --image base ./e.doze:/d/a /d/b && run 0 doze cat --image base ./e.doze:/d/b && cmp out passwd &&
    run 0 doze files rm --image base ./e.doze:/d/b && run 1 doze cat --image base ./e.doze:/d/b && run 0 doze sql --image base ./e.doze "select 40 + 2" && has out 42'
option 'cat, cp, edit, sql, files rm, files mkdir, files mv --base' '
    export base=$DOZE_BASE DOZE_DATA=$PWD/none; unset DOZE_BASE; run 1 doze cat ./on-base.doze:/etc/passwd && has err "was not given" && run 0 doze cat --base "$base" ./on-base.doze:/etc/passwd && has out root && run 1 doze cp ./on-base.doze:/etc/passwd copied && run 0 doze cp --base "$base" ./on-base.doze:/etc/passwd copied && grep -q root copied && run 0 doze files mkdir --base "$base" ./on-base.doze:/d &&
    run 0 env EDITOR="cp passwd" doze edit --base "$base" ./on-base.doze:/d/a && run 0 doze files mv --base "$base" ./on-base.doze:/d/a /d/b && run 0 doze cat --base "$base" ./on-base.doze:/d/b && cmp out passwd &&
    run 0 doze files rm --base "$base" ./on-base.doze:/d/b && run 1 doze cat --base "$base" ./on-base.doze:/d/b && run 0 doze sql --base "$base" ./on-base.doze "select 40 + 2" && has out 42'
option 'ls --kind; fork --label; clone --tenant; sandbox create --snapshot' '
    run 0 doze ls -q --kind wasm && [ -s out ] && { run 0 doze ls -q --kind other && empty out; } &&
    run 0 doze exec s-b -- sh -c "echo snapped >/workspace/snapped" && run 0 doze snapshot s-b && snap=$(grep -o "snap_[a-z0-9]*" out) &&
    run 0 doze sandbox create --persistent --snapshot "$snap" -n s-c && run 0 doze exec s-c -- cat /workspace/snapped && has out snapped &&
    run 0 doze fork --label "a note" s-b && run 0 doze fork ls && has out "a note" && run 0 doze suspend s-b && run 0 doze clone --tenant acme -n s-d s-b && shown acme/s-d "\"tenant\":\"acme\""'
mkdir -p third && { cp -rl "$images" third/images 2>/dev/null || cp -r --reflink=auto "$images" third/images; }
up() { # the daemon on third answers
    export DOZE_URL=unix:$PWD/third/doze.sock
    for _ in $(seq 200); do doze ls -q >/dev/null 2>&1 && return 0; sleep 0.05; done
    cat third.log
    return 1
}
option 'sandbox create --disk' '
    run 0 doze sandbox create base --no-start --persistent --disk 8MiB -n s-e && shown s-e "\"disk_bytes\":8388608"'
option 'daemon --disk-reserve --disk-sandbox' '
    { end_daemon third || :; } && { doze daemon --data third --disk-reserve 40MiB --disk-sandbox 8MiB 2>third.log & } && up && run 0 doze create base -n small &&
    [ "$(cat third/reserve/* | wc -c)" -eq 41943040 ] && rm third/reserve/* && for _ in $(seq 200); do [ "$(ls third/reserve | wc -l)" -eq 8 ] && break; sleep 0.05; done &&
    [ "$(ls third/reserve | wc -l)" -eq 8 ] &&
    run 0 doze exec small -- sh -c "head -c 1000000 /dev/urandom >/tmp/x" && run 1 doze exec small -- sh -c "head -c 30000000 /dev/urandom >/tmp/x"'
option 'daemon --disk-free-percent --disk-free-max: half of the disk is wanted, and 1 MiB of it' '
    { end_daemon third || :; } && { doze daemon --data third --disk-free-percent 50 --disk-free-max 1PiB 2>third.log & } && up && read -r all free <<<"$(df -k --output=size,avail third | tail -n 1)" &&
    if [ "$free" -lt "$((all / 2))" ]; then run 1 doze create base --no-start && has err "are kept free"; else run 0 doze create base --no-start; fi &&
    { end_daemon third || :; } && { doze daemon --data third --disk-free-percent 50 --disk-free-max 1MiB 2>third.log & } && up && run 0 doze create base --no-start'

third_daemon() { # doze daemon OPTIONS: on third
    end_daemon third || :
    "$@" --data third 2>third.log &
    up
}
held() { run 0 python3 "$LIB_ROOT/tests/lib/held.py" "$@" && cat out; }
option 'daemon --price-currency --price-memory --price-storage-active --price-storage-asleep --price-snapshots' '
    run 1 doze daemon --data none --price-memory 1 && has err prices.currency && run 1 doze daemon --data none --price-currency EUR --price-storage-active x && has err prices.storage_active &&
    third_daemon doze daemon --price-currency EUR --price-memory 0.01 --price-storage-active 0.02 --price-storage-asleep 0.03 --price-snapshots 0.04 && run 0 doze usage --json && has out EUR'
option 'daemon --egress-mode --egress-allow-cidrs --egress-allow-domains --egress-allow-ports --egress-deny-cidrs --egress-deny-domains --egress-local-cidrs --egress-resolvers --egress-connect-timeout --egress-connections' '
    run 2 doze daemon --data none --egress-mode x && has err egress.mode && run 1 doze daemon --data none --egress-mode deny_all --egress-allow-cidrs x && has err egress.allow_cidrs &&
    third_daemon doze daemon --egress-mode deny_all --egress-allow-cidrs 203.0.113.0/24 --egress-allow-domains a.example --egress-allow-ports 443 --egress-deny-cidrs 203.0.113.7/32 --egress-deny-domains b.example --egress-local-cidrs 10.77.0.0/16 --egress-resolvers 127.0.0.1:5353 --egress-connect-timeout 5s --egress-connections 8 &&
    run 0 doze create base --no-start -n eg && shown eg "\"network\":true"'
rules() { shown "$1" "203.0.113.0/24" && has out "deny_all" && has out "a.example" && has out 443 && has out "203.0.113.7/32" && has out "b.example"; }
option 'create --egress-mode --egress-allow-cidr --egress-allow-domain --egress-allow-port --egress-deny-cidr --egress-deny-domain' '
    export DOZE_URL=unix:$PWD/third/doze.sock && run 0 doze create base --no-start -n eg-a --egress-mode deny_all --egress-allow-cidr 203.0.113.0/24 --egress-allow-domain a.example --egress-allow-port 443 --egress-deny-cidr 203.0.113.7/32 --egress-deny-domain b.example && rules eg-a && run 1 doze create base --no-start --egress-allow-cidr x && has err cidr'
option 'sandbox create --egress-mode --egress-allow-cidr --egress-allow-domain --egress-allow-port --egress-deny-cidr --egress-deny-domain' '
    export DOZE_URL=unix:$PWD/third/doze.sock && run 0 doze sandbox create base --persistent --no-start -n eg-b --egress-mode deny_all --egress-allow-cidr 203.0.113.0/24 --egress-allow-domain a.example --egress-allow-port 443 --egress-deny-cidr 203.0.113.7/32 --egress-deny-domain b.example && rules eg-b'
option 'egress set --egress-mode --egress-allow-cidr --egress-allow-domain --egress-allow-port --egress-deny-cidr --egress-deny-domain --json -q; egress show --json; egress clear --json -q' '
    export DOZE_URL=unix:$PWD/third/doze.sock && run 0 doze egress set eg --egress-mode deny_all --egress-allow-cidr 203.0.113.0/24 --egress-allow-domain a.example --egress-allow-port 443 --egress-deny-cidr 203.0.113.7/32 --egress-deny-domain b.example && cp out rules && rules eg &&
    run 0 doze egress show eg && cmp out rules && [ "$(wc -l <rules)" -eq 6 ] && has out "--egress-allow-port 443" && has out "--egress-mode deny_all" && run 0 doze egress show --json eg && has out "\"allow_ports\":[443]" &&
    run 0 doze egress set -q eg --egress-deny-domain c.example && empty out && run 0 doze egress set --json eg --egress-deny-domain c.example && has out "\"egress\":{\"deny_domains\":[\"c.example\"]}" && run 2 doze egress set eg && has err "egress clear" && run 2 doze egress set eg --egress-allow-port x && has err "must be a port" &&
    run 1 doze egress set eg --egress-allow-cidr x && has err allow_cidrs && run 0 doze egress clear -q eg && empty out && run 0 doze egress show eg && empty out && has err "no egress rules" && run 0 doze egress clear --json eg && run 1 doze egress show nobody && has err nobody'
option 'daemon --preview-domain --preview-wait' '
    third_daemon doze daemon --preview-domain pv.example --preview-wait 0 && run 0 doze create base --no-start -n pv --port 80 && run 0 doze preview url pv 80 && has out .pv.example/'
option 'daemon --e2b --e2b-templates' '
    third_daemon doze daemon --e2b yes --e2b-templates a=base && curl -sS --unix-socket third/doze.sock -o out http://d/templates/aliases/a && has out "\"templateID\":\"a\"" && run 2 doze daemon --data none --e2b maybe && has err e2b.enabled'
option 'daemon --connections: the 17th is accepted when one of the 16 has left' '
    third_daemon doze daemon --connections 16 && held connections "$PWD/third/doze.sock" 20 && has out "answered 16 later 4" && third_daemon doze daemon && held connections "$PWD/third/doze.sock" 20 && has out "answered 20 later 0"'
option 'daemon --plain --connections-per-address' '
    { end_daemon third || :; } && port=$("$LIB_ROOT/tests/lib/free_port.py") && run 1 doze daemon --data third --listen 0.0.0.0:$port --plain no && has err "TLS" &&
    third_daemon doze daemon --listen 0.0.0.0:$port --plain yes --connections-per-address 3 && held connections 127.0.0.1:$port 6 && has out "answered 3 "'
option 'daemon --requests-per-tenant' '
    third_daemon doze daemon --requests-per-tenant 2 && run 0 doze token create acme --tenant acme && token=$(grep -o "doze_[A-Za-z0-9_]*" out | head -n 1) && echo "Authorization: Bearer $token" >acme.header &&
    held streams "$PWD/third/doze.sock" "$token" 2 && has out "began 2 beyond 429 after 200"'
option 'daemon --unread-per-tenant --unread: the answer of a command does not fit' '
    ask() { curl -sS -o out -w "%{http_code}" --unix-socket third/doze.sock -H @acme.header "http://d/v1/sandboxes$1" -d "$2"; } && big="{\"cmd\":[\"true\"],\"max_output\":16777216}" &&
    third_daemon doze daemon && [ "$(ask "" "{\"image\":\"base\",\"name\":\"large\"}")" = 201 ] && [ "$(ask /large/exec "$big")" = 200 ] &&
    third_daemon doze daemon --unread 4MiB --unread-per-tenant 1GiB && { [ "$(ask /large/exec "$big")" = 429 ] || { cat out; exit 1; } } && has out rate_limited &&
    third_daemon doze daemon --unread 1GiB --unread-per-tenant 4MiB && { [ "$(ask /large/exec "$big")" = 429 ] || { cat out; exit 1; } } && has out rate_limited'
option 'daemon --suspend-after --freeze-after' '
    third_daemon doze daemon --suspend-after 200ms --freeze-after 200ms && run 0 doze create base -n cold && for _ in $(seq 400); do doze get --json cold | grep -q "\"state\":\"frozen\"" && break; sleep 0.05; done && shown cold "\"state\":\"frozen\""'
option 'daemon --cells-memory-beside: its effect needs cgroups, and is tested in t0792-cgroup-each.sh' '
    run 2 doze daemon --data third --cells-memory-beside nonsense && has err cells-memory-beside'
option 'daemon --cells-cpu: its effect needs cgroups, and is tested in t0563-cgroup.sh' '
    run 2 doze daemon --data third --cells-cpu nonsense && has err cells-cpu'
option 'daemon --drain-timeout: a cell that is stopped does not hold up its end' '
    third_daemon doze daemon --drain-timeout 1s --log-level debug && run 0 doze create base -n stuck && run 0 doze exec -d stuck -- sleep 1000 && d=$(pid_in third) && cell=$(sed -n "s/.*event=cell_up .*pid=//p" third.log | tail -n 1) && [ "$cell" -gt 1 ] &&
    kill -STOP "$cell" && kill -TERM "$d" && timeout 20 tail --pid="$d" -f /dev/null && { kill -KILL "$cell" 2>/dev/null || :; } && grep -q "event=daemon_drained.*awake=1" third.log'

test_that 'every option of the table is used by a test' '
    python3 "$LIB_ROOT/tests/lib/option_use.py" "$DOZE" "$LIB_ROOT"/tests/integration/*.sh >unused && if [ -s unused ]; then cat unused; echo "give each of these a case in $(basename "$0")"; exit 1; fi
'
test_done
