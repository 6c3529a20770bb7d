#!/bin/bash
# Sockets of WebAssembly programs: busybox's httpd, wget, nc, telnet and netstat on loopback, in one
# machine, and in a sandbox that sleeps while its server listens and a client waits.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
with_base
# shellcheck disable=SC2034 # used in the tests
ready='until netstat -tln | grep -q ":$port .*LISTEN"; do :; done'

test_that 'a web server serves pages, files of 3 MB and programs, by name and by address' '
    cat >script <<"END"
mkdir -p /tmp/www/cgi-bin && cd /tmp/www && echo hello >index.html && head -c 3000000 /dev/urandom >big
printf "#!/bin/sh\necho; echo \$REQUEST_METHOD \$QUERY_STRING; cat\n" >cgi-bin/x && chmod +x cgi-bin/x
httpd -p 127.0.0.1:8080 -h /tmp/www
wget -q -O - http://localhost:8080/
wget -q -O /tmp/big http://127.0.0.1:8080/big && cmp /tmp/big big && echo same
wget -q -O - "http://localhost:8080/cgi-bin/x?a=b"
wget -q -O - --post-data=posted "http://localhost:8080/cgi-bin/x?c"; echo
wget -q -O - http://localhost:8080/none; echo "status $?"
END
    run 0 doze run --copy script:/tmp/script -- sh /tmp/script &&
    printf "hello\nsame\nGET a=b\nPOST c\nposted\nstatus 1\n" | cmp - out && has err "404 Not Found"
'
test_that 'both ends of a connection talk; a datagram arrives; nobody listens on another port' '
    printf "port=7777\n(echo from server | nc -l -p 7777 >/tmp/got) &\n%s\necho from client | nc -w 2 localhost 7777; wait; cat /tmp/got\n" "$ready" >script &&
    printf "nc -lu -p 7778 -w 1 >/tmp/udp & until netstat -uln | grep -q :7778; do :; done\n" >>script &&
    printf "echo datagram | nc -u -w 1 127.0.0.1 7778; wait; cat /tmp/udp\nnc 127.0.0.1 9 </dev/null; echo refused \$?\n" >>script &&
    run 0 doze run --copy script:/tmp/script -- sh /tmp/script &&
    printf "from server\nfrom client\ndatagram\nrefused 1\n" | cmp - out
'
test_that 'names and addresses outside are refused with a reason' '
    run 1 doze run -- wget -q -O - http://host.example/ && has err "bad address" &&
    run 1 doze run -- wget -q -O - http://192.0.2.1/ && has err "Network unreachable"
'
start || exit 1
test_that 'a server that slept answers the first request, and a client that waited gets its bytes' '
    run 0 doze create base -n web && run 0 doze exec web sh -c "echo awake >/tmp/index.html; httpd -p 8080 -h /tmp" &&
    run 0 doze exec -d web sh -c "mkfifo /tmp/go; (read -r go </tmp/go; echo late) | nc -l -p 7777" &&
    run 0 doze exec web sh -c "port=7777; $ready" &&
    run 0 doze exec -d web sh -c "nc 127.0.0.1 7777 >/tmp/received; echo done >/tmp/end" &&
    run 0 doze exec web sh -c "until netstat -tn | grep -q 127.0.0.1:7777; do :; done" &&
    run 0 doze suspend web && until_state web suspended &&
    run 0 doze exec web wget -q -O - http://localhost:8080/ && has out awake &&
    run 0 doze exec web sh -c "echo >/tmp/go; until [ -e /tmp/end ]; do :; done; cat /tmp/received" && has out late
'
stop
test_done
