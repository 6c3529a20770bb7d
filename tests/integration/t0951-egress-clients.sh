#!/bin/bash
# Programs that people use, in a sandbox, against servers outside: names by each kind of resolver, HTTP by each
# kind of client, git over HTTP in both directions. Needs `make test-images`; node needs the image dev.
. "$(dirname "$0")/egress_daemon.sh"
egress_start
has_image() { [ -e "$LINUX_IMAGES/tags/$1:latest" ] || skip "the image $1 is not built"; }
in_w() { run 0 doze exec w -- "$@"; }

net_test 'names: getaddrinfo, getent, the name of the machine itself' '
    run 0 doze create -q --name w --egress-allow-cidr 10.77.0.1 --egress-allow-domain "*.test" debian && in_w getent hosts web.test && has out 10.77.0.1 && in_w getent ahostsv4 localhost && has out 127.0.0.1 &&
    in_w python3 -c "import socket; print(socket.gethostbyname(\"web.test\"), socket.gethostbyname(\"localhost\"))" && has out "10.77.0.1 127.0.0.1"
'
net_test 'HTTP by Python, Perl and the shell' '
    in_w python3 -c "import urllib.request as u; print(u.urlopen(\"http://web.test:8080/\").read())" && has out "hello from outside" &&
    in_w perl -MIO::Socket::INET -e "\$s = IO::Socket::INET->new(\"web.test:8080\") or die \$!; print \$s \"GET / HTTP/1.0\r\n\r\n\"; print <\$s>" && has out "hello from outside" &&
    in_w bash -c "exec 3<>/dev/tcp/web.test/8080; printf \"GET / HTTP/1.0\r\n\r\n\" >&3; cat <&3" && has out "hello from outside"
'
net_test 'git over HTTP: clone, commit, push, fetch' '
    command -v git >/dev/null || skip "there is no git here"
    mkdir -p git && git init -q --bare -b main git/a.git && git -C git/a.git config http.receivepack true && rm -rf seed && git init -q -b main seed && head -c 3000000 /dev/urandom >seed/big &&
    git -C seed add big && git -C seed -c user.name=a -c user.email=a@b commit -qm one && git -C seed push -q "$PWD/git/a.git" main &&
    in_w sh -ec "cd /tmp; git clone -q http://web.test:8080/git/a.git; cd a; sha256sum <big; echo more >more; head -c 2000000 /dev/urandom >big2; git add .; git -c user.name=c -c user.email=c@d commit -qm two; git push -q origin main; git fetch; git status -sb" &&
    has out "$(sha256sum <seed/big)" && has out "## main...origin/main" && [ "$(git -C git/a.git log --format=%s main | tr "\n" " ")" = "two one " ]
'
# curl and wget of this machine, with their libraries but for those of libc
copied() {
    local f
    mkdir -p opt && for f in curl wget; do
        command -v $f >/dev/null || skip "there is no $f here"
        cp "$(command -v $f)" opt && ldd "opt/$f" | awk '/=> \// { print $3 }' | grep -v '/lib\(c\|m\|pthread\|dl\|rt\|resolv\)\.so' | xargs -r cp -t opt || return 1
    done
    run 0 doze cp -r opt w:/opt/c && { doze exec w -- env LD_LIBRARY_PATH=/opt/c sh -c '/opt/c/curl --version && /opt/c/wget --version' >/dev/null 2>&1 || skip "programs of this machine do not run on the libc of the image"; }
}
net_test 'curl and wget' '
    copied &&
    in_w env LD_LIBRARY_PATH=/opt/c sh -ec "cd /tmp; /opt/c/curl -sS http://web.test:8080/; /opt/c/curl -sS http://web.test:8080/big | wc -c; /opt/c/wget -q http://web.test:8080/big; wc -c <big; /opt/c/wget -qO- http://10.77.0.1:8080/" &&
    [ "$(tr "\n" " " <out)" = "hello from outside 3000000 3000000 hello from outside " ]
'
net_test 'node: fetch, dns.lookup and dns.resolve4' '
    has_image dev &&
    run 0 doze create -q --name n --egress-allow-cidr 10.77.0.1 --egress-allow-domain "*.test" dev && run 0 doze exec n -- node -e "
fetch(\"http://web.test:8080/\").then(async r => console.log(r.status, await r.text()))
require(\"dns\").resolve4(\"web.test\", (e, a) => console.log(\"resolve4\", e, a))
require(\"dns\").lookup(\"web.test\", (e, a) => console.log(\"lookup\", e, a))" && has out "200 hello from outside" && grep -q "resolve4 null \[ .10.77.0.1. \]" out && has out "lookup null 10.77.0.1"
'
world_test 'the image base: wget, nc and names that do not exist' '
    run 0 doze create -q --name b --egress-allow-cidr 10.77.0.1 --egress-allow-domain "*.test" base && in_b() { run "$1" doze exec b -- "${@:2}"; } &&
    in_b 0 wget -q -O - http://web.test:8080/ && has out "hello from outside" && in_b 0 sh -c "wget -q -O - http://web.test:8080/big | wc -c" && has out 3000000 &&
    in_b 0 sh -c "nc web.test 9090 </dev/null | head -n 1" && has out line && in_b 1 wget -q -O - http://none.test:8080/ && has err none.test && in_b 1 wget -q -O - http://refused.example/ &&
    in_b 0 sh -c "echo nameserver 127.0.0.9 >/etc/resolv.conf; wget -q -O - http://web.test:8080/" && has out "hello from outside"
'
test_done
