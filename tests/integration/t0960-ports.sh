#!/bin/bash
# Open ports and previews: who may visit, what reaches the guest and comes back, and a visit of a
# sandbox that sleeps. The guest's server is busybox's httpd. Needs `make base`.
. "$(dirname "$0")/lib.sh"
. "$LIB_ROOT/tests/integration/daemon.sh"
port=$("$LIB_ROOT/tests/lib/free_port.py")
start --listen "127.0.0.1:$port" --preview-domain pv.example:8443 || exit 1
id() { doze get "$1" --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["id"])'; }
# visit STATUS PATH [OPTION...]: by the address; head and body in out
visit() {
    local want=$1 path=$2 got
    shift 2
    got=$(curl -sS --max-time 60 -D head -o out -w '%{http_code}' --path-as-is "$@" "http://127.0.0.1:$port$path") || return 1
    [ "$got" = "$want" ] && return 0
    echo "$path: $got, not $want"; cat head out
    return 1
}
host() { echo "Host: $2-${1#sbx_}.pv.example"; } # ID PORT
# raw TEXT: bytes on a connection, with printf's escapes
raw() { printf '%b' "$1" | timeout 60 python3 -c '
import socket, sys
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
c.sendall(sys.stdin.buffer.read())
while data := c.recv(65536): sys.stdout.buffer.write(data)' "$port" >out; }
# shellcheck disable=SC2034 # used in the tests
html="Accept: text/html,*/*"
# shellcheck disable=SC2034
site='mkdir -p /tmp/www/cgi-bin && cd /tmp/www && echo hello >index.html && head -c 3000000 /dev/urandom >big && cat >cgi-bin/x <<"END"
#!/bin/sh
printf "Set-Cookie: __Host-doze_preview=evil\r\nSet-Cookie: own=1\r\n\r\n"
env | grep -E "^(HTTP_|QUERY|REQUEST)" | sort
cat
END
printf "#!/bin/sh\necho Content-Type: text/plain\necho\necho by a bare LF\n" >cgi-bin/lf
chmod +x cgi-bin/x cgi-bin/lf && httpd -p 8080 -h /tmp/www'

test_that 'ports are opened at a creation and later, listed and closed; what is wrong is refused by its field' '
    run 0 doze create base -n web --port 8080 --port 9000:public && run 0 doze port ls web && has out 8080 && has out 9000 &&
    api 200 GET "$(s /web)" && has out "\"ports\":[{\"target\":8080,\"protocol\":\"http\",\"public\":false},{\"target\":9000,\"protocol\":\"http\",\"public\":true}]" && has out "\"preview\":true" &&
    run 0 doze port open web 70 --public --protocol ws && has out "http://70-" && has out ".pv.example:8443/" && run 0 doze port close web 70 && run 1 doze port close web 70 && has err "no open port" &&
    api 409 POST "$(s /web/ports)" "{\"target\":8080}" && api 400 POST "$(s /web/ports)" "{\"target\":0}" && has out "\"field\":\"target\"" && api 400 POST "$(s /web/ports)" "{\"target\":81,\"protocol\":\"tcp\"}" && has out "\"reason\":\"unsupported\"" &&
    api 400 POST "$(s /web/ports)" "{\"target\":81,\"protocol\":\"ftp\"}" && has out "\"field\":\"protocol\"" && api 404 DELETE "$(s /web/ports/81)" && api 404 GET "$(s /nosuch/ports)" && api 404 GET "$(s /nosuch/previews)" &&
    api 404 GET "$(s /web/previews/81/tokens)" && api 404 POST "$(s /web/previews/81/tokens)" "{}" && api 404 DELETE "$(s /web/previews/8080/tokens/x)" && api 400 POST "$(s /web/previews/8080/tokens)" "{\"name\":\"a b\"}" && has out "\"field\":\"name\"" &&
    api 400 GET "$(s /web/ports/8080/connect)" && has out WebSocket && api 400 GET "$(s /web/ports/x/connect)" && run 2 doze create base --no-start --port 80:secret && has err "PORT:public" && run 2 doze port open web x && run 2 doze forward web x
'
test_that 'other changes keep the ports; a fork and a clone have none' '
    run 0 doze label web k=v && api 200 PATCH "$(s /web)" "{\"auto_resume\":true}" && has out "\"target\":8080" && run 0 doze suspend web && api 201 POST "$(s /web/clone)" "{\"name\":\"copy\"}" && has out "\"ports\":[]" && run 0 doze port ls copy && lacks out 8080 &&
    run 0 doze fork web --count 1 --json && f=$(grep -oE "sbx_[a-z0-9]+" out | tail -1) && api 200 GET "$(s "/$f/ports")" && has out "\"ports\":[]" && api 204 DELETE "$(s "/$f?force=true")" && api 204 DELETE "$(s "/copy?force=true")"
'
# shellcheck disable=SC2034
i=$(id web)
test_that 'a port on which nobody listens is 502; one that is not open, and what does not exist, is 404' '
    visit 502 / -H "$(host "$i" 9000)" && has out not_listening && visit 404 / -H "$(host "$i" 81)" && visit 404 "/preview/$i/81/" && visit 404 /preview/sbx_00000000000000000000/80/ && visit 404 /preview/web/9000/ &&
    visit 404 "/preview/$i" && visit 404 "/preview/$i/09000/" && visit 404 "/preview/$i/65536/" && visit 404 / -H "Host: 9000-web.pv.example" && visit 404 /preview/ -H "$html" && has out "<h1>There is no preview here</h1>" &&
    visit 502 "/preview/$i/9000/%3Cscript%3E?<script>" -H "$html" && has head "text/html" && has head "default-src" && lacks out "script>"
'
test_that 'a visitor without a token stays outside; header, query and cookie let in, and the guest sees none of them' '
    run 0 doze exec web sh -c "$site" && run 0 doze port ls web && has out yes && h=$(host "$i" 8080) && visit 401 /cgi-bin/x -H "$h" && visit 401 "/preview/$i/8080/" && visit 401 / -H "$h" -H "Doze-Preview-Token: doze_$(printf %064d 0)" && visit 401 / -H "$h" -H "Doze-Preview-Token: x" &&
    run 0 doze preview token web 8080 -n rev && t=$(cat out) && run 1 doze preview token web 8080 -n rev && has err already && run 0 doze preview ls web && has out rev && api 200 GET "$(s /web/previews/8080/tokens)" && has out rev && visit 200 / -H "$h" -H "Doze-Preview-Token: $t" && has out hello &&
    visit 200 "/cgi-bin/x?a=1&doze_token=$t&b=2" -H "$h" -H "Cookie: own=2; __Host-doze_preview=$t" -H "Doze-Preview-Token: $t" -H "X-Forwarded-For: 9.9.9.9" && lacks out "$t" && has out "QUERY_STRING=a=1&b=2" && lacks head evil && has head "own=1" && has out HTTP_X_FORWARDED_FOR=127.0.0.1 && has out "HTTP_COOKIE=own=2" &&
    visit 303 "/cgi-bin/x?a=1&doze_token=$t" -H "$h" -H "$html" && grep -qE "^Location: /cgi-bin/x\?a=1.$" head && has head "Set-Cookie: __Host-doze_preview=$t; Path=/; Secure; HttpOnly" &&
    visit 404 "//elsewhere.example/?doze_token=$t" -H "$h" -H "$html" && lacks head Location && visit 200 / -H "$h" -H "Cookie: x=y; __Host-doze_preview=$t" && visit 401 / -H "$h" -H "Cookie: doze_preview=$t" && visit 404 / -H "$(host "$i" 9001)" -H "Doze-Preview-Token: $t" && run 0 doze port open web 9001 && visit 401 / -H "$(host "$i" 9001)" -H "Doze-Preview-Token: $t" &&
    run 0 doze preview url web 8080 && has out "http://8080-${i#sbx_}.pv.example:8443/" && visit 200 "/preview/$i/8080/cgi-bin/x" -H "Doze-Preview-Token: $t" -H "Cookie: a=1" && lacks out HTTP_COOKIE && lacks head Set-Cookie && has head "Content-Security-Policy: sandbox" && has out "HTTP_X_FORWARDED_PREFIX=/preview/$i/8080" &&
    visit 401 "/preview/$i/8080/" -H "Cookie: __Host-doze_preview=$t"
'
test_that 'a token that is revoked, and a port that is closed, let nobody in' '
    run 0 doze preview token web 8080 -n other && t=$(cat out) && visit 200 / -H "$(host "$i" 8080)" -H "Doze-Preview-Token: $t" && run 0 doze preview rm web 8080 other && visit 401 / -H "$(host "$i" 8080)" -H "Doze-Preview-Token: $t" && run 0 doze preview token web 8080 && t=$(cat out) && run 0 doze port close web 8080 && visit 404 / -H "$(host "$i" 8080)" -H "Doze-Preview-Token: $t" &&
    run 0 doze port open web 8080 && visit 401 / -H "$(host "$i" 8080)" -H "Doze-Preview-Token: $t" && run 0 doze preview ls web -q && empty out && run 0 doze port close web 8080 && run 0 doze port open web 8080 --public
'
test_that 'large bodies go both ways, in chunks, too; a connection serves several requests' '
    h=$(host "$i" 8080) && visit 200 /cgi-bin/lf -H "$h" && has out "by a bare LF" && grep -q "^Content-Type: text/plain.$" head && visit 200 /big -H "$h" && doze exec web cat /tmp/www/big | cmp - out && head -c 100000 /dev/urandom | base64 >sent && visit 200 /cgi-bin/x -H "$h" --data-binary @sent && tail -n 50 sent | cmp - <(tail -n 50 out) &&
    raw "GET / HTTP/1.1\r\n$h\r\n\r\nGET / HTTP/1.1\r\n$h\r\nConnection: close\r\n\r\n" && [ "$(grep -ac ^hello out)" = 2 ] && visit 200 / -H "$h" -I && has head "HTTP/1.1 200"
'
test_that 'smuggled requests are refused' '
    h=$(host "$i" 8080) && for x in "Content-Length: 3\r\nTransfer-Encoding: chunked" "Content-Length: 3\r\nContent-Length: 4" "Transfer-Encoding: gzip, chunked" "Transfer-Encoding : chunked" "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked" "Content-Length: +3" "A: b\r\n c: d" "A\x00: b" "X: a\nY: b"; do
        raw "POST /cgi-bin/x HTTP/1.1\r\n$h\r\n$x\r\n\r\n0\r\n\r\nGET /cgi-bin/x?smuggled HTTP/1.1\r\n$h\r\n\r\n" && grep -qaE "^HTTP/1.1 (400|501)" out && lacks out "QUERY_STRING=smuggled" || { echo "$x"; cat out; exit 1; }
    done
    raw "GET http://other.example/ HTTP/1.1\r\n$h\r\nConnection: close\r\n\r\n" && has out "HTTP/1.1 400" && raw "TRACE / HTTP/1.1\r\n$h\r\nConnection: close\r\n\r\n" && has out "HTTP/1.1 405" && raw "POST /cgi-bin/x HTTP/1.1\r\n$h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" && grep -qaE "^HTTP/1.1 (400|502)" out
'
test_that 'a visit wakes a sandbox that sleeps and is answered; one that may not be woken is 503' '
    h=$(host "$i" 8080) && run 0 doze suspend web && visit 200 / -H "$h" && has out hello && run 0 doze get web && has out active && api 200 PATCH "$(s /web)" "{\"auto_resume\":false}" && run 0 doze suspend web && visit 503 / -H "$h" && has out "\"reason\":\"asleep\"" && visit 503 / -H "$h" -H "$html" && has out "This sandbox is not available" &&
    api 200 PATCH "$(s /web)" "{\"auto_resume\":true}" && run 0 doze freeze web && visit 200 / -H "$h" && has out hello && run 0 doze archive web && visit 503 / -H "$h" && has out "\"reason\":\"archived\""
'
test_that 'doze forward: a local port, open or not, awake or not, and its end' '
    run 0 doze create base -n fw && run 0 doze exec fw sh -c "$site" && { doze forward fw 0:8080 >to & f=$!; until_true test -s to && curl -sS --max-time 60 "http://$(cat to)/big" >got; kill $f; doze exec fw cat /tmp/www/big | cmp - got; } &&
    run 0 doze suspend fw && { doze forward fw 0:8080 >to2 & f=$!; until_true test -s to2 && curl -sS --max-time 60 "http://$(cat to2)/" >got; kill $f; has got hello; } && run 1 doze forward nosuch 80 && has err nosuch
'
test_that 'a sandbox that is deleted is gone for its visitors' '
    run 0 doze rm --force web && visit 410 / -H "$(host "$i" 8080)" && visit 410 / -H "$(host "$i" 8080)" -H "$html" && has out "gone" && stop
'
test_done
