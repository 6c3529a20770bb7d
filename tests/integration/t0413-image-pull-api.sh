#!/bin/bash
# Images of a registry over the API: pulls with progress, creations that pull first, stop signals.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
tools=$LIB_ROOT/tests/oci
trap 'kill $(cat serve.pid 2>/dev/null) 2>/dev/null; [ -e daemon.pid ] && kill -9 "$(cat daemon.pid)" 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT
I=/v1/images

cat >wait.c <<'C'
#include <signal.h>
#include <stdio.h>
int main(void)
{
    sigset_t all;
    int number;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, 0);
    puts("waiting");
    fflush(stdout);
    sigwait(&all, &number);
    printf("signal %d\n", number);
    return 0;
}
C
gcc -static -Os -o wait wait.c || exit 1
cat >spec <<'S'
name 1.0
config Entrypoint ["/bin/wait"]
config StopSignal "SIGQUIT"
config ExposedPorts {"80/tcp":{}}
layer
dir bin 755
copy bin/wait 755 wait
pad pad 3000000
S
"$tools/make-image" spec served
"$tools/registry" served port >serve.out 2>&1 &
echo $! >serve.pid
until_true test -e port || exit 1
port=$(cat port)
start || exit 1
export I port

test_that 'a pull is a build: followed with its progress, its image is there at its end' '
    curl -sSN --max-time 60 --unix-socket "$SOCK" -H "Accept: text/event-stream" -d "{\"pull\":\"127.0.0.1:$port/team/app:1.0\"}" http://d$I >out && has out "event: progress" &&
    has out "\"what\":\"layer 1 of 1\"" && has out "event: end" && has out "\"status\":\"DEPLOYED\"" && has out "\"name\":\"app:1.0\"" &&
    api 200 GET $I/app:1.0 && has out "\"stop_signal\":\"SIGQUIT\"" && has out "\"ports\":[\"80/tcp\"]" && api 200 GET $I/builds && has out "\"total_bytes\":" && [ ! -e data/builds ] || [ -z "$(ls data/builds)" ]
'
test_that 'it has another name if one is given' '
    api 202 POST $I "{\"pull\":\"127.0.0.1:$port/team/app:1.0\",\"name\":\"mine:2\"}" && until_true api 200 GET $I/mine:2
'
test_that 'pulls that make no sense are refused' '
    api 400 POST $I "{\"pull\":\"x\"}" && has out "names no registry" && has out "\"field\":\"pull\"" && api 400 POST $I "{\"pull\":\"127.0.0.1:$port/a\",\"recipe\":\"[image]\"}" && has out "cannot be combined" &&
    api 400 POST $I "{}" && has out "\"field\":\"recipe\"" && api 202 POST $I "{\"pull\":\"127.0.0.1:$port/a:2\"}" && b=$(grep -o "bld_[a-z0-9]*" out) && until_true eval "api 200 GET $I/builds/$b && grep -q FAILED out" && has out "has no tag 2 of a"
'
test_that 'a creation pulls its image: if it is missing, always, never' '
    api 400 POST "$(s)" "{\"image\":\"127.0.0.1:$port/team/made:1.0\",\"pull\":\"never\"}" && has out "has not been pulled" && api 400 POST "$(s)" "{\"image\":\"127.0.0.1:$port/team/made:1.0\",\"pull\":\"now\"}" && has out "\"field\":\"pull\"" &&
    api 201 POST "$(s)" "{\"image\":\"127.0.0.1:$port/team/made:1.0\",\"name\":\"made\"}" && has out "\"name\":\"made\"" && n=$(grep -c manifests/1.0 served.log) &&
    api 201 POST "$(s)" "{\"image\":\"127.0.0.1:$port/team/made:1.0\"}" && [ "$(grep -c manifests/1.0 served.log)" = "$n" ] &&
    api 201 POST "$(s)" "{\"image\":\"127.0.0.1:$port/team/made:1.0\",\"pull\":\"always\"}" && [ "$(grep -c manifests/1.0 served.log)" -gt "$n" ] &&
    api 503 POST "$(s)" "{\"image\":\"127.0.0.1:$port/team/made:2\"}" && has out "has no tag 2" && api 200 GET "$(s)" && [ "$(grep -o "\"id\":\"sbx_" out | wc -l)" = 3 ]
'
test_that 'twenty creations at once pull once' '
    before=$(grep -c manifests/1.0 served.log) && for i in $(seq 20); do curl -sS --max-time 60 --unix-socket "$SOCK" -o made.$i -w "%{http_code}\n" -d "{\"image\":\"127.0.0.1:$port/team/many:1.0\",\"start\":false}" http://d/v1/sandboxes >code.$i & pids[i]=$!; done; wait "${pids[@]}"
    [ "$(cat code.* | sort | uniq -c | tr -s " ")" = " 20 201" ] && [ "$(grep -c manifests/1.0 served.log)" = $((before + 1)) ]
'
test_that 'a client that leaves does not end the pull' '
    { curl -sS --max-time 0.05 --unix-socket "$SOCK" -d "{\"image\":\"127.0.0.1:$port/team/left:1.0\"}" http://d/v1/sandboxes >/dev/null 2>&1 || :; } && api 200 GET /readyz
'
test_that 'only the operator pulls; DOZE_URL: the daemon pulls' '
    run 0 doze token create t --tenant t && token=$(grep -o "doze_[A-Za-z0-9_]*" out | head -n 1) && export DOZE_URL=unix:$SOCK && DOZE_TOKEN=$token run 1 doze create --pull missing 127.0.0.1:$port/team/other:1.0 && has err "only the operator" &&
    DOZE_TOKEN=$token run 1 doze create 127.0.0.1:$port/team/other:1.0 && has err "has not been pulled" && run 1 doze create --pull never 127.0.0.1:$port/team/other:1.0 && has err "has not been pulled" &&
    run 0 doze create --name far 127.0.0.1:$port/team/other:1.0 && run 0 doze create --pull always 127.0.0.1:$port/team/other:1.0
'
test_that 'the stop signal of the image ends its commands, unless another is named' '
    logs_have() { doze logs made "$x" >out 2>err && grep -q "$1" out; }
    for body in "" "{}" kill "{\"signal\":\"INT\"}"; do
        api 201 POST "$(s /made/exec)" "{\"cmd\":[\"/bin/wait\"],\"background\":true}" && x=$(grep -o "exe_[a-z0-9]*" out) && until_true logs_have waiting &&
        { [ "$body" = kill ] && run 0 doze kill made "$x" || api 204 POST "$(s /made/exec/$x/signal)" "$body"; } && until_true logs_have "^signal" && { [ "${body#*INT}" = "$body" ] && has out "signal 3" || has out "signal 2"; } || exit 1
    done
'
test_that 'doze run passes SIGTERM on as the stop signal of the image' '
    { doze run --image app:1.0 >ran 2>err & } && pid=$! && until_true grep -q waiting ran && kill -TERM $pid && wait $pid && grep -q "signal 3" ran
'
test_that 'without an image, doze create uses the image code' '
    run 2 doze create && has err "make image-code" && run 0 doze image build -q --from base --from-dir empty -t code && run 0 doze create --name default && run 0 doze get --json default && has out "\"image\":\"code\""
'
stop
test_done
