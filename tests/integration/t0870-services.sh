#!/bin/bash
# Services: commands that start with a sandbox: their order, readiness, restarts and crash loops; what
# becomes of them when the sandbox sleeps, when the daemon is restarted, and in branches.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
start || exit 1
run 0 doze create base -n a --no-start --idle never
v() { s "/a/services${1:-}"; }
# member NAME KEY VALUE [SANDBOX]: a member of a service, as JSON
member() {
    curl -sS --unix-socket "$SOCK" -o out "http://d$(s "/${4:-a}/services/$1")" &&
        python3 -c 'import json,sys; r=json.load(open("out")); sys.exit(json.dumps(r.get(sys.argv[1])) != sys.argv[2])' "$2" "$3"
}
is() { member "$1" status "\"$2\"" "${3:-a}"; }
exec_of() { curl -sS --unix-socket "$SOCK" "http://d$(s "/${2:-a}/services/$1")" | python3 -c 'import json,sys; print(json.load(sys.stdin)["exec_id"])'; }
events_of() { run 0 doze events a && has out "$1"; }
deployment() { api 200 GET "$(s /a)" && has out "\"deployment\":\"$1\""; }
asleep() { run 0 doze suspend "${1:-a}" && run 0 doze get "${1:-a}" && has out suspended; }

test_that 'a service starts with its sandbox, is ready by its port, and is seen' '
    run 0 doze service add a web --ready-port 8080 --restart always -e WHO=me sh -c "echo hello >/workspace/index.html; echo I am \$WHO; exec httpd -f -p 8080 -h /workspace" && has out web &&
    is web asleep && run 0 doze wake a && until_true is web ready && member web restart "\"always\"" && run 0 doze service ls a && has out ready && run 0 doze service status a web && has out ready &&
    run 0 doze exec a -- wget -qO- http://127.0.0.1:8080/ && has out hello && run 0 doze logs a web && has out "I am me" && deployment DEPLOYED && events_of service_ready && run 0 doze ps a && has out ".web"
'
test_that 'it sleeps and goes on with the memory of its sandbox' '
    e=$(exec_of web) && asleep && is web asleep && run 0 doze exec a -- wget -qO- http://127.0.0.1:8080/ && has out hello && until_true is web ready && [ "$(exec_of web)" = "$e" ] && member web restarts 0
'
test_that 'a restart of a service wakes its sandbox and restarts the process that woke' '
    e=$(exec_of web) && asleep && run 0 doze service restart a web && other() { is web ready && [ "$(exec_of web)" != "$e" ]; } && until_true other
'
test_that 'a service that was ready by its output is ready after a wake, also when that output is no longer kept' '
    api 201 POST "$(v)" "{\"name\":\"talks\",\"shell\":\"echo it is up; until [ -e /workspace/talk ]; do sleep 0.1; done; head -c 400000 /dev/zero | tr \\\\000 x; touch /workspace/talked; exec sleep 1000\",\"ready\":{\"log\":\"it is up\",\"timeout\":\"1h\"}}" && until_true is talks ready &&
    run 0 doze exec a -- sh -c "touch /workspace/talk; until [ -e /workspace/talked ]; do sleep 0.1; done" && e=$(exec_of talks) && asleep && run 0 doze wake a && until_true is talks ready && [ "$(exec_of talks)" = "$e" ] && api 204 DELETE "$(v /talks)"
'
test_that 'a check by HTTP does not wake its sandbox, neither one that waits for the port nor one that waits for the answer' '
    run 0 doze create base -n other --no-start && api 201 POST "$(v)" "{\"name\":\"absent\",\"shell\":\"exec sleep 1000\",\"ready\":{\"http\":{\"port\":8089},\"timeout\":\"1h\",\"interval\":\"100ms\"}}" &&
    api 201 POST "$(v)" "{\"name\":\"mute\",\"shell\":\"exec nc -ll -p 8090 -e sh -c \\\"touch /workspace/asked; exec sleep 1000\\\"\",\"ready\":{\"http\":{\"port\":8090},\"timeout\":\"1h\",\"interval\":\"100ms\"}}" &&
    run 0 doze exec a -- sh -c "until [ -e /workspace/asked ]; do sleep 0.1; done" && asleep && run 0 doze exec other -- sleep 0.5 && run 0 doze get a && has out suspended && run 0 doze rm -f other && api 204 DELETE "$(v /absent)" && api 204 DELETE "$(v /mute)" && run 0 doze wake a && until_true is web ready
'
test_that 'without its memory it starts again' '
    e=$(exec_of web) && run 0 doze suspend a --keep files && run 0 doze wake a && until_true is web ready && [ "$(exec_of web)" != "$e" ]
'
test_that 'one that is killed is started again, and an event says why' '
    e=$(exec_of web) && run 0 doze kill a "$e" -s KILL && again() { is web ready && [ "$(exec_of web)" != "$e" ]; } && until_true again && member web restarts 1 && member web signal "\"KILL\"" && events_of service_failed
'
test_that 'the order of needs: each starts when what it needs is ready' '
    api 201 POST "$(v)" "{\"name\":\"setup\",\"shell\":\"echo setup >>/workspace/order\",\"restart\":\"no\",\"enabled\":false}" &&
    api 201 POST "$(v)" "{\"name\":\"db\",\"shell\":\"echo db >>/workspace/order; sleep 0.3; echo now open; exec sleep 1000\",\"needs\":[\"setup\"],\"ready\":{\"log\":\"now open\"},\"enabled\":false}" &&
    api 201 POST "$(v)" "{\"name\":\"app\",\"shell\":\"echo app >>/workspace/order; exec sleep 1000\",\"needs\":[\"db\"],\"enabled\":false}" &&
    run 0 doze service start a app && run 0 doze service status a app && has out waiting && deployment DEPLOYING && run 0 doze service start a db && run 0 doze service start a setup &&
    until_true is app ready && is db ready && is setup done && run 0 doze cat a:/workspace/order && [ "$(tr "\n" " " <out)" = "setup db app " ] && deployment DEPLOYED &&
    api 409 DELETE "$(v /db)" && has out "needs db" && api 204 DELETE "$(v /app)" && api 204 DELETE "$(v /db)" && api 204 DELETE "$(v /setup)" && api 404 GET "$(v /db)"
'
test_that 'the last lines of its output' '
    run 0 doze exec -d a -- sh -c "for i in 1 2 3 4 5; do echo line \$i; done" && e=$(grep -o "exe_[a-z0-9]*" out) && ended() { run 0 doze ps a -a --json && python3 -c "import json; exit(not [x for x in json.load(open(\"out\")) if x[\"exec_id\"]==\"$e\" and x[\"state\"]==\"ended\"])"; } && until_true ended &&
    run 0 doze logs --tail 2 a "$e" && [ "$(tr "\n" " " <out)" = "line 4 line 5 " ] && run 0 doze logs -n 0 a "$e" && [ ! -s out ] && run 0 doze logs -n 99 a "$e" && [ "$(wc -l <out)" = 5 ] && run 0 doze logs -f -n 1 a "$e" && [ "$(cat out)" = "line 5" ] && run 2 doze logs --tail x a "$e"
'
test_that 'readiness by a command and by HTTP' '
    api 201 POST "$(v)" "{\"name\":\"cmd\",\"shell\":\"sleep 0.3; touch /tmp/there; exec sleep 1000\",\"ready\":{\"cmd\":[\"test\",\"-e\",\"/tmp/there\"],\"interval\":\"100ms\"}}" && until_true is cmd ready &&
    api 201 POST "$(v)" "{\"name\":\"http\",\"shell\":\"mkdir -p /tmp/w; (sleep 0.5; echo ok >/tmp/w/health) & exec httpd -f -p 8081 -h /tmp/w\",\"ready\":{\"http\":{\"port\":8081,\"path\":\"/health\"},\"interval\":\"100ms\"}}" && until_true is http ready &&
    api 204 DELETE "$(v /cmd)" && api 204 DELETE "$(v /http)"
'
test_that 'one that is not ready in time is stopped and has failed' '
    api 201 POST "$(v)" "{\"name\":\"slow\",\"cmd\":[\"sleep\",\"1000\"],\"restart\":\"no\",\"ready\":{\"port\":9999,\"timeout\":\"300ms\"}}" && until_true is slow failed && has out "not ready within 300 ms" && deployment FAILED && api 204 DELETE "$(v /slow)"
'
test_that 'a stop has its signal and its grace, and lasts' '
    api 201 POST "$(v)" "{\"name\":\"deaf\",\"shell\":\"trap : TERM; trap \\\"echo bye; exit 0\\\" INT; while :; do sleep 0.1; done\",\"grace\":\"300ms\"}" && until_true is deaf ready &&
    run 0 doze service stop a deaf && until_true is deaf stopped && member deaf signal "\"KILL\"" && member deaf enabled false &&
    api 200 PATCH "$(v /deaf)" "{\"stop_signal\":\"INT\",\"grace\":\"1h\"}" && run 0 doze service start a deaf && until_true is deaf ready && run 0 doze service restart a deaf && restarted() { is deaf ready && member deaf exit_code 0; } && until_true restarted &&
    api 200 PATCH "$(v /deaf)" "{\"enabled\":false}" && until_true is deaf stopped && run 0 doze service rm a deaf
'
test_that 'a crash loop is a state and one event, and sleeps with its sandbox' '
    api 201 POST "$(v)" "{\"name\":\"bad\",\"shell\":\"exit 3\"}" && until_true is bad crash_loop && has out "status 3" && member bad exit_code 3 && deployment FAILED && run 0 doze events a && [ "$(grep -c service_crash_loop out)" = 1 ] &&
    asleep && is bad asleep && run 0 doze wake a && until_true is bad crash_loop && run 0 doze events a && [ "$(grep -c service_crash_loop out)" = 1 ] && api 204 DELETE "$(v /bad)"
'
test_that 'a program that there is not, and a directory that there is not' '
    api 201 POST "$(v)" "{\"name\":\"none\",\"cmd\":[\"/no/such\"],\"restart\":\"no\"}" && until_true is none failed && has out "/no/such" && api 204 DELETE "$(v /none)"
'
test_that 'a daemon that is restarted finds them in the machines that wake, and those that ended meanwhile' '
    api 201 POST "$(v)" "{\"name\":\"once\",\"shell\":\"echo once >>/workspace/once\",\"restart\":\"no\"}" && until_true is once done && e=$(exec_of web) && stop && start && is web asleep && run 0 doze wake a && until_true is web ready && [ "$(exec_of web)" = "$e" ] &&
    until_true is once done && run 0 doze cat a:/workspace/once && [ "$(grep -c once out)" = 1 ] && kill -9 "$(cat daemon.pid)" && gone "$(cat daemon.pid)" && start && run 0 doze exec a -- true && until_true is web ready && until_true is once done
'
test_that 'a service that ran once does not run again after a wake, however many commands have run since' '
    cat >many.py <<EOF
import http.client, socket
c = http.client.HTTPConnection("d")
c.sock = socket.socket(socket.AF_UNIX)
c.sock.connect("$SOCK")
for i in range(270):
    c.request("POST", "$(s /a/exec)", "{\"cmd\":[\"true\"]}", {"Content-Type": "application/json"})
    r = c.getresponse()
    r.read()
    assert r.status == 200, r.status
EOF
    e=$(exec_of once) && python3 many.py && run 0 doze exec -d a -- sleep 1000 && stop && start && run 0 doze wake a && until_true is web ready && until_true is once done && [ "$(exec_of once)" = "$e" ] && run 0 doze cat a:/workspace/once && [ "$(grep -c once out)" = 1 ]
'
test_that 'a service that was deleted or stopped while its sandbox slept does not go on' '
    api 201 POST "$(v)" "{\"name\":\"gone\",\"cmd\":[\"sleep\",\"4321\"]}" && until_true is gone ready && asleep && api 204 DELETE "$(v /gone)" && run 0 doze wake a && none() { run 0 doze ps a && lacks out 4321; } && until_true none
'
test_that 'branches have them: a fork with its memory goes on, a clone starts' '
    e=$(exec_of web) && run 0 doze fork a --count 1 && run 0 doze ls && b=$(doze ls --json | python3 -c "import json,sys; print([x[\"id\"] for x in json.load(sys.stdin) if x[\"name\"]!=\"a\"][0])") && until_true is web ready "$b" && [ "$(exec_of web "$b")" = "$e" ] && until_true is once done "$b" && run 0 doze cat "$b:/workspace/once" && [ "$(grep -c once out)" = 1 ] && run 0 doze rm -f "$b" &&
    asleep && run 0 doze clone a --name c && run 0 doze wake c && until_true is web ready c && run 0 doze rm -f c
'
test_that 'a creation with services; the number of them has a limit; what is wrong is refused by its field' '
    echo "[{\"name\":\"one\",\"cmd\":[\"sleep\",\"1000\"]},{\"name\":\"two\",\"cmd\":[\"sleep\",\"1000\"],\"needs\":[\"one\"]}]" >services.json && run 0 doze create base -n d --services services.json && until_true is two ready d && run 0 doze rm -f d &&
    no() { api 400 POST "$(s)" "{\"image\":\"base\",\"services\":$1}" && has out "\"field\":\"services\""; } && no "[{\"name\":\"x\"}]" && no "[{\"name\":\"x\",\"cmd\":[\"a\"],\"needs\":[\"y\"]}]" && no "[{\"name\":\"x\",\"cmd\":[\"a\"],\"needs\":[\"x\"]}]" && no "[{\"name\":\"x\",\"cmd\":[\"a\"]},{\"name\":\"x\",\"cmd\":[\"a\"]}]" && no "[1]" && no "[{\"name\":\"x\",\"cmd\":[\"a\"],\"colour\":1}]" &&
    bad() { api 400 POST "$(v)" "{\"name\":\"x\",$1}" && has out "\"field\":\"$2\""; } && bad "\"shell\":\"a\",\"cmd\":[\"a\"]" cmd && bad "\"cmd\":[\"a\"],\"restart\":\"maybe\"" restart && bad "\"cmd\":[\"a\"],\"cwd\":\"x\"" cwd && bad "\"cmd\":[\"a\"],\"stop_signal\":\"NOPE\"" stop_signal && bad "\"cmd\":[\"a\"],\"ready\":{\"port\":0}" ready.port && bad "\"cmd\":[\"a\"],\"ready\":{\"port\":1,\"log\":\"x\"}" ready && bad "\"cmd\":[\"a\"],\"ready\":{\"http\":{\"port\":1,\"path\":\"x y\"}}" ready.http.path && bad "\"cmd\":[\"a\"],\"grace\":\"2h\"" grace && bad "\"cmd\":[\"a\"],\"needs\":[\"nope\"]" needs &&
    api 409 POST "$(v)" "{\"name\":\"web\",\"cmd\":[\"a\"]}" && api 400 PATCH "$(v /web)" "{\"name\":\"other\"}" && api 400 PATCH "$(v /web)" "{\"needs\":[\"web\"]}" && api 404 POST "$(v /nope/start)" &&
    for i in $(seq 14); do api 201 POST "$(v)" "{\"name\":\"n$i\",\"cmd\":[\"true\"],\"enabled\":false}" || exit 1; done; api 429 POST "$(v)" "{\"name\":\"n99\",\"cmd\":[\"true\"]}"
'
test_that 'a schedule restarts a service' '
    e=$(exec_of web) && api 201 POST "$(s /a/schedules)" "{\"name\":\"fresh\",\"every\":\"24h\",\"service\":\"web\"}" && has out "\"command\":{\"service\":\"web\"}" && run 0 doze schedule run a fresh && other() { is web ready && [ "$(exec_of web)" != "$e" ]; } && until_true other && ok() { run 0 doze schedule history a fresh && has out ok; } && until_true ok &&
    api 400 POST "$(s /a/schedules)" "{\"name\":\"both\",\"every\":\"24h\",\"service\":\"web\",\"cmd\":[\"true\"]}" && has out "\"field\":\"service\""
'
test_that 'other tenants do not see them, and nothing is left of a sandbox that is deleted' '
    token=$(doze token create t --tenant other) && for m in GET PATCH DELETE; do [ "$(curl -s -o out -w "%{http_code}" -X $m --unix-socket "$SOCK" -H "Authorization: Bearer $token" "http://d$(v /web)")" = 404 ] || exit 1; done; run 0 doze rm -f a && api 404 GET "$(v)"
'
stop
test_done
