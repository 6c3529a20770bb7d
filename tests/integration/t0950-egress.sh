#!/bin/bash
# Connections of sandboxes to other machines: in a network namespace of its own, with servers on two addresses
# (tests/lib/egress_world.py). Needs `make test-images`.
. "$(dirname "$0")/egress_daemon.sh"
export get refused # for tests
egress_start --egress-deny-domains bad.test
# CODE [NAME]: what Python prints in the sandbox
py() { run 0 doze exec "${2:-w}" -- python3 -c "$1"; }
events() { api 200 GET "$(s "/${1:-w}/events?limit=500")"; }
broker() { pgrep -P "$(cat daemon.pid)" -x doze-broker; }
another() { [ -n "$(broker)" ] && [ "$(broker)" != "$was" ]; }
was=''
get='import urllib.request as u; print(len(u.urlopen("http://web.test:8080/big", timeout=20).read()))'
refused='import socket
s = socket.socket(); e = s.connect_ex(("%s", %s)); print("errno", e)'

net_test 'a sandbox without rules reaches nothing where egress.mode is deny_all' '
    run 0 doze create -q --name w debian && api 200 GET "$(s /w)" && has out "\"network\":true" && has out "\"network\":null" &&
    py "$(printf "$refused" 10.77.0.1 8080)" && has out "errno 13" && events && has out "egress_refused" && has out "10.77.0.1:8080 unlisted" &&
    py "import socket
try: socket.getaddrinfo(\"web.test\", 80)
except OSError as e: print(\"no name\")" && has out "no name" && events && has out "web.test unlisted"
'
net_test 'rules by address: PATCH opens it, other addresses and ports stay closed' '
    api 200 PATCH "$(s /w)" "{\"network\":{\"egress\":{\"allow_cidrs\":[\"10.0.0.0/8\"],\"allow_ports\":[8080,9090]}}}" &&
    has out "\"allow_ports\":[8080,9090]" &&
    py "import urllib.request as u; print(u.urlopen(\"http://10.77.0.1:8080/\").read())" && has out "hello from outside" &&
    py "$(printf "$refused" 10.77.0.1 8081)" && has out "errno 13" &&
    py "$(printf "$refused" 10.78.0.1 8080)" && has out "errno 13" && events && has out "10.78.0.1:8080 reserved"
'
net_test 'rules by name: the addresses that the resolver gave, and no others' '
    run 0 doze create -q --name n --egress-allow-domain "*.test" debian && api 200 GET "$(s /n)" && has out "\"allow_domains\":[\"*.test\"]" &&
    py "$(printf "$refused" 10.77.0.1 8080)" n && has out "errno 13" && py "$get" n && has out 3000000 &&
    py "$(printf "$refused" 10.77.0.1 8080)" n && has out "errno 0" &&
    py "import socket
for name in \"bad.test\", \"none.test\":
    try: socket.getaddrinfo(name, 80)
    except OSError as e: print(name, \"fails\")
print(socket.getaddrinfo(\"rebound.test\", 80)[0][4])" n && has out "bad.test fails" && has out "none.test fails" && has out "127.0.0.1" &&
    events n && has out "bad.test forbidden"
'
net_test 'a change of rules ends the connections that it forbids' '
    doze exec w -- python3 -c "
import socket
s = socket.create_connection((\"10.77.0.1\", 9090)); print(s.recv(5), flush=True)
try:
    while s.recv(100): pass
    print(\"end\")
except OSError as e: print(\"reset\", e.errno)" >long 2>&1 & running=$!
    until_true grep -q line long &&
    api 200 PATCH "$(s /w)" "{\"network\":{\"egress\":{\"mode\":\"deny_all\"}}}" && wait $running; cat long; grep -Eq "reset 104|end" long
'
net_test 'wrong rules are refused by field' '
    api 400 PATCH "$(s /w)" "{\"network\":{\"egress\":{\"allow_cidrs\":[\"10.0.0.1/8\"]}}}" && has out "network.egress.allow_cidrs" &&
    api 400 PATCH "$(s /w)" "{\"network\":{\"egress\":{\"mode\":\"most\"}}}" && has out "network.egress.mode" &&
    api 400 PATCH "$(s /w)" "{\"network\":{\"egress\":{\"mode\":\"allow_all\",\"allow_cidrs\":[\"1.0.0.0/8\"]}}}" && has out "allow_all allows every address" &&
    api 400 PATCH "$(s /w)" "{\"network\":{\"egress\":{\"allow_ports\":[80]}}}" && has out "add an allowed CIDR" &&
    api 400 PATCH "$(s /w)" "{\"network\":{\"egress\":{\"allow_ports\":[\"80\"]}}}" && has out "port numbers" &&
    api 400 PATCH "$(s /w)" "{\"network\":{\"ingress\":{}}}" && has out "unknown field ingress"
'
net_test 'a connection stays open while its sandbox sleeps' '
    api 200 PATCH "$(s /w)" "{\"network\":{\"egress\":{\"allow_cidrs\":[\"10.77.0.1\"]}}}" &&
    run 0 doze exec -d w -- python3 -c "
import socket, time
s = socket.create_connection((\"10.77.0.1\", 9090)); f = s.makefile()
for i in range(3): f.readline()
open(\"/workspace/three\", \"w\").close()
while True: f.readline(); open(\"/workspace/more\", \"a\").write(\"x\")" &&
    until_true doze exec w -- test -e /workspace/three && run 0 doze suspend w && until_true doze exec w -- test -s /workspace/more
'
net_test 'bytes of connections are counted, of those that are over and of open ones' '
    bytes() { doze top --json | python3 -c "import json, sys; print(*[s[\"egress_$1_bytes\"] for s in json.load(sys.stdin)[\"sandboxes\"] if s[\"name\"] == \"n\"])"; }
    run 0 doze exec n -- true && before=$(bytes received) && py "$get" n && more=$(($(bytes received) - before)) && [ "$more" -gt 3000000 ] && [ "$more" -lt 3001000 ] && sent=$(bytes sent) && [ "$sent" -gt 100 ] && [ "$sent" -lt 2000 ] &&
    run 0 doze exec -d n -- python3 -c "
import socket, time
s = socket.create_connection((\"web.test\", 8080)); s.sendall(b\"GET /big HTTP/1.0\r\n\r\n\"); n = 0
while n < 3000000: n += len(s.recv(65536))
open(\"/tmp/got\", \"w\").close(); time.sleep(1000)" && until_true doze exec n -- test -e /tmp/got && [ "$(($(bytes received) - before))" -gt 6000000 ] &&
    api 200 GET /metrics && all=$(sed -n "s/^doze_egress_bytes_total{direction=\"received\"} //p" out) && python3 -c "import sys; sys.exit(not 6e6 < float(sys.argv[1]) < 1e7)" "$all" && grep -q "^doze_egress_bytes_total{direction=\"sent\"} " out &&
    run 0 doze top && has out "NET IN/S"
'
net_test 'a broker that dies is started again' '
    was=$(broker) && kill -9 "$was" && until_true another && py "import urllib.request as u; print(u.urlopen(\"http://10.77.0.1:8080/\").read())" &&
    has out "hello from outside" && api 200 GET /metrics && has out "doze_broker_restarts_total 1" &&
    has out "doze_egress_refused_total{reason=\"unlisted\"}" && has out "doze_egress_connections_total{result=\"opened\"}"
'
test_done
