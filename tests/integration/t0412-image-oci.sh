#!/bin/bash
# OCI images: layouts and archives, what layers may do, hostile ones, and registries.
. "$(dirname "$0")/lib.sh"
export DOZE_DATA=$PWD/data
tools=$LIB_ROOT/tests/oci
trap 'kill $(cat ./*.pid 2>/dev/null) $(tr -dc 0-9 <data/daemon.lock) 2>/dev/null; sleep 0.5; rm -rf "$LIB_SCRATCH"' EXIT

cat >hello.c <<'C'
#include <unistd.h>
int main(int n, char **words)
{
    for (int i = 0; i < n; i++) {
        unsigned long size = 0;
        while (words[i][size])
            size++;
        (void)!write(1, words[i], size);
        (void)!write(1, "\n", 1);
    }
    return 0;
}
C
gcc -static -Os -o hello hello.c || exit 1

# image NAME [--tar|--docker] <SPEC: as NAME, a layout, or NAME.tar
image() { cat >"$1.spec" && "$tools/make-image" "$1.spec" "$1${2:+.tar}" ${2:+"$2"}; }
# files IMAGE: its files as tar tells them, without the directories that every disk has
files() { rm -f look.doze && doze image export -q "$1" look.doze && doze disk tar look.doze | tar tvf - | grep -vE ' (memory|tmp|workspace)/$' | sed 's/  */ /g'; }
# bad SENTENCE <SPEC: such an image is refused, and leaves nothing
bad() { rm -rf bad bad.spec && image bad && run 1 doze image import bad -t bad && has err "$1" && run 1 doze image inspect bad; }

spec='name registry.example/team/App:1.0
config Env ["A=b c","PATH=/bin"]
config Entrypoint ["/bin/hello"]
config Cmd ["x"]
config WorkingDir "srv/app"
config User "1000:1001"
config ExposedPorts {"8080/tcp":{},"53/UDP":{}}
config StopSignal "SIGRTMIN+3"
layer gzip
dir bin 755
copy bin/hello 755 hello
dir etc 755
file etc/gone 644 gone
file etc/kept 644 kept
dir opaque 755
file opaque/old 644 old
dir deep 755
file deep/a 644 a
link lib bin
file becomes-dir 644 x
dir becomes-file 755
file becomes-file/in 644 x
layer zstd
file opaque/new 644 new
file opaque/.wh..wh..opq 644
file etc/gone-too 644 x
file etc/.wh.gone 644
file .wh.deep 644
file .wh.nothing 644
dir becomes-dir 700 5:6
file becomes-dir/in 600 in\n
file becomes-file 4755 x
hard bin/same bin/hello
xattr etc/attr user.a value
node dev/null
file lib/through 644 through
layer plain
file etc/.wh.gone-too 644'
printf '%s\n' "$spec" | image app

test_that 'a layout: its layers, whiteouts, owners, links, attributes and times' '
    run 0 doze image import app && run 0 doze image inspect app:1.0 && has out "kind       linux" && has out "user       1000:1001" &&
    has out "workdir    /srv/app" && has out "entry      /bin/hello" && has out "A=b c" &&
    has out "stop       SIGRTMIN+3" && has out "ports      8080/tcp" && has out "53/udp" &&
    run 0 files app:1.0 && has out "drwx------ 5/6 0 2023-11-14 22:13 becomes-dir/" && has out "becomes-dir/in" && lacks out gone && lacks out deep &&
    has out "opaque/new" && lacks out "opaque/old" && has out "bin/through" && has out "lib -> bin" && has out "bin/same" && lacks out "dev/null" &&
    has out "-rwsr-xr-x 0/0 1 2023-11-14 22:13 becomes-file" && has out "srv/app/" && has out "etc/kept" &&
    rm -rf x && mkdir x && doze disk tar look.doze | tar -C x -xf - --xattrs && [ "$(cat x/becomes-dir/in)" = in ] && [ x/bin/same -ef x/bin/hello ] &&
    [ "$(getfattr --only-values -n user.a x/etc/attr 2>/dev/null || python3 -c "import os; print(os.getxattr(\"x/etc/attr\", \"user.a\").decode(), end=\"\")")" = value ]
'
test_that 'its command runs, with the words of ENTRYPOINT and CMD; a given command replaces both' '
    run 0 doze run --image app:1.0 && printf "/bin/hello\nx\n" | cmp - out && run 0 doze run --image app:1.0 -- hello y && printf "hello\ny\n" | cmp - out
'
test_that 'archives of it give the same image: a tar, a compressed one, and one of docker save' '
    run 0 doze image inspect app:1.0 --json && cp out want && printf "%s\n" "$spec" | image a --tar && printf "%s\n" "$spec" | image d --docker && gzip d.tar &&
    for f in a.tar d.tar.gz; do rm -rf other && DOZE_DATA=$PWD/other run 0 doze image import -q $f && DOZE_DATA=$PWD/other run 0 doze image inspect app:1.0 --json && cmp out want || exit 1; done
'
test_that 'of several images one is chosen by its name' '
    { printf "%s\n" "$spec" && printf "name other:2\nconfig Entrypoint [\"/bin/hello\"]\nlayer\ndir bin 755\ncopy bin/hello 755 hello\n"; } | image two &&
    run 1 doze image import two && has err "there are 2 images: name one of them (registry.example/team/App:1.0, other:2)" &&
    run 1 doze image import two --name third && has err "no image named third" && run 0 doze image import two --name other:2 && run 0 doze image inspect other:2 &&
    run 2 doze image import look.doze --name x
'
test_that 'an image without a name needs one' '
    printf "layer\ndir etc 755\n" | image none && run 1 doze image import none && has err "give one by -t" && run 0 doze image import none -t none
'
test_that 'a damaged layer, a wrong diff id and a truncated one are refused' '
    printf "layer\nfile a 644 a\nbreak digest\n" | bad "the layer is damaged: its content is SHA-256" &&
    printf "layer\nfile a 644 a\nbreak diff\n" | bad "its unpacked content is SHA-256" && printf "layer\npad a 100000\nbreak gzip\n" | bad "layer 1 of 1"
'
test_that 'members that lead out of the image are refused, links inside it are followed' '
    printf "layer\nfile ../a 644 a\n" | bad "leads out of the image" && printf "layer\nhard a ../../etc/passwd\n" | bad "leads out of the image" &&
    printf "layer\nfile .wh... 644\n" | bad "removes no name" && printf "layer\ndir etc 755\nlink far /etc\nfile far/x 644 x\n" | image linked && run 0 doze image import linked -t out &&
    run 0 files out && has out " etc/x"
'
test_that 'a bomb is refused' '
    printf "layer zstd\npad a 400000000\n" | bad "the archive holds more than"
'
test_that 'other platforms and unusable settings are refused by name' '
    printf "platform linux arm64\nlayer\nfile a 644 a\n" | bad "no image for Linux on amd64" &&
    printf "config Cmd [\"a\\\\nb\"]\nlayer\nfile a 644 a\n" | bad "Cmd in the image" &&
    printf "config StopSignal \"SIGNONE\"\nlayer\nfile a 644 a\n" | bad "StopSignal in the image" &&
    printf "config ExposedPorts {\"80/icmp\":{}}\nlayer\nfile a 644 a\n" | bad "ExposedPorts in the image"
'
test_that 'what is no image says so' '
    mkdir empty && run 1 doze image import empty -t x && has err "neither an index.json nor a manifest.json" && tar cf t.tar hello.c && run 1 doze image import t.tar -t x &&
    has err "neither an index.json" && mkdir broken && echo "{" >broken/index.json && run 1 doze image import broken -t x && has err "index.json is not JSON: line" &&
    mkdir -p far && echo "{\"manifests\":[{\"digest\":\"sha256:$(printf x | sha256sum | cut -d" " -f1)\"}]}" >far/index.json && run 1 doze image import far -t x && has err "lacks its manifest"
'

test_that 'it is exported as a layout and as an archive, and imported again the same' '
    run 0 doze image export -q --oci app:1.0 lay && run 0 doze image export -q --oci app:1.0 lay.tar && doze image export --oci app:1.0 - >lay2.tar && cmp lay.tar lay2.tar && [ "$(tar tf lay.tar | sort)" = "$(cd lay && find blobs index.json manifest.json oci-layout | sort)" ] &&
    rm -rf x && mkdir x && tar xf lay.tar -C x && diff -r lay x && for f in lay/blobs/sha256/*; do echo "${f##*/}  $f"; done | sha256sum -c --quiet && run 0 doze image inspect app:1.0 --json && cp out want &&
    run 0 files app:1.0 && cp out want.files && python3 - <<P &&
import json
blob = lambda d: json.load(open("lay/blobs/sha256/" + d["digest"][7:]))
manifest = blob(json.load(open("lay/index.json"))["manifests"][0])
c = blob(manifest["config"])
assert c["config"] == {"User": "1000:1001", "WorkingDir": "/srv/app", "Env": ["A=b c", "PATH=/bin"], "Cmd": ["/bin/hello", "x"], "StopSignal": "SIGRTMIN+3",
                       "ExposedPorts": {"8080/tcp": {}, "53/udp": {}}}, c
assert c["os"] == "linux" and c["architecture"] == "amd64" and len(manifest["layers"]) == 1
P
    for f in lay lay.tar; do rm -rf other && DOZE_DATA=$PWD/other run 0 doze image import -q $f && DOZE_DATA=$PWD/other run 0 doze image inspect app:1.0 --json && cp out got &&
        DOZE_DATA=$PWD/other run 0 files app:1.0 && diff want.files out && diff <(grep -v "\"id\"\|sha256\|size_bytes" want) <(grep -v "\"id\"\|sha256\|size_bytes" got) && DOZE_DATA=$PWD/other run 0 doze run --image app:1.0 && has out x || exit 1; done
'
test_that 'skopeo reads what is exported' '
    command -v skopeo >/dev/null || skip "skopeo is not installed"
    run 0 skopeo inspect oci:lay:app:1.0 && has out "\"amd64\"" && has out "A=b c" && run 0 skopeo inspect --config oci-archive:lay.tar:app:1.0 && has out "SIGRTMIN+3" &&
    run 0 skopeo inspect docker-archive:lay.tar && rm -rf copied && run 0 skopeo --insecure-policy copy oci-archive:lay.tar:app:1.0 oci:copied:app:1.0 && run 0 doze image import -q copied -t copied && run 0 doze run --image copied && has out x
'
test_that 'an export replaces nothing, leaves nothing when it fails, and is for native programs' '
    mkdir there && run 1 doze image export --oci app:1.0 there && [ -d there ] && run 1 doze image export --oci app:1.0 lay.tar && cmp lay.tar lay2.tar &&
    printf "[image]\nname = modules\n[file /a]\ntext = a\n" >modules.ini && run 0 doze image build -q modules.ini && run 1 doze image export --oci modules no && has err "of kind wasm" && [ ! -e no ] &&
    run 1 doze image export --oci modules no.tar && [ ! -e no.tar ] && run 1 doze image export --oci nothing no && [ ! -e no ]
'

# serve LAYOUT OPTION...: the port is in $port
serve() {
    local layout=$1
    shift
    rm -f port
    "$tools/registry" "$layout" port "$@" >serve.out 2>&1 &
    echo $! >serve.pid
    for _ in $(seq 100); do [ -e port ] && break; sleep 0.05; done
    # shellcheck disable=SC2034 # the tests' strings use it
    port=$(cat port)
}
stop() { kill "$(cat serve.pid)" && rm serve.pid; }
printf '%s\n' "${spec/registry.example\/team\/App:1.0/1.0}" | image served

test_that 'an image of a registry is pulled, named after it, and not fetched twice' '
    serve served && run 0 doze image pull 127.0.0.1:$port/team/app:1.0 -t pulled && run 0 doze run --image pulled && has out x && [ "$(grep -c blobs served.log)" = 4 ] &&
    run 0 doze image pull 127.0.0.1:$port/team/app:1.0 && run 0 doze image inspect app:1.0 && [ "$(grep -c blobs served.log)" = 4 ] && [ "$(grep -c manifests/1.0 served.log)" = 2 ] &&
    digest=$(sed -n "s/.*\"sha256:\([0-9a-f]*\)\".*/\1/p" served/index.json) && run 0 doze image pull 127.0.0.1:$port/team/app@sha256:$digest && run 0 doze image inspect app:${digest:0:12} &&
    run 0 doze image pull 127.0.0.1:$port/team/app:all -t index &&
    run 1 doze image pull 127.0.0.1:$port/team/app:2 && has err "has no tag 2 of team/app" && DOZE_IMAGE_REGISTRY=127.0.0.1:$port run 0 doze image pull short:1.0 && stop
'
test_that 'doze run pulls what is missing, always, or never, and finds it again by its reference' '
    rm -rf data/images/cache && serve served && ref=127.0.0.1:$port/team/run:1.0 && run 125 doze run --pull never --image $ref && has err "has not been pulled: doze image pull $ref" &&
    run 0 doze run --image $ref && printf "/bin/hello\nx\n" | cmp - out && has err "pull $ref" && run 0 doze run --image $ref && lacks err "pull $ref" &&
    run 0 doze run --pull always --image $ref && has err "pull $ref" && [ "$(grep -c manifests/1.0 served.log)" = 2 ] && run 2 doze run --pull now --image $ref &&
    run 0 doze image inspect $ref && has out "/bin/hello" && stop && run 0 doze run --image $ref && run 0 doze image rm run:1.0 app:1.0 pulled index short:1.0 && run 0 doze image ls
'
test_that 'a daemon creates sandboxes of them' '
    serve served && ref=127.0.0.1:$port/team/made:1.0 && run 1 doze create --pull never $ref && run 1 doze sandbox create --pull never $ref && run 2 doze sandbox create --pull now $ref && run 0 doze create -q --name made $ref && run 0 doze exec made -- /bin/hello y && has out y &&
    run 0 doze rm --force made && stop
'
test_that 'names that are none are refused' '
    run 1 doze image pull app && has err "names no registry" && run 1 doze image pull host.example/A && has err "invalid name" && run 1 doze image pull host.example/a:b/c && has err "invalid" &&
    run 1 doze image pull host.example/a@sha256:12 && has err "not of SHA-256" && run 1 doze image pull localhost:1/a && has err "connect"
'
test_that 'a token, by the login that docker stored or that a helper knows, is not sent elsewhere' '
    rm -rf data/images/cache && serve served --bearer --elsewhere && run 1 doze image pull 127.0.0.1:$port/a:1.0 && has err "refused the login; nobody is logged in" &&
    mkdir -p home/.docker && printf "{\"auths\":{\"127.0.0.1:%s\":{\"auth\":\"%s\"}}}" $port "$(printf bob:wrong | base64)" >home/.docker/config.json &&
    HOME=$PWD/home run 1 doze image pull 127.0.0.1:$port/a:1.0 && has err "refused the login (HTTP 401)" && lacks err wrong &&
    printf "{\"auths\":{\"127.0.0.1:%s\":{\"auth\":\"%s\"}}}" $port "$(printf bob:secret | base64)" >home/.docker/config.json && HOME=$PWD/home run 0 doze image pull 127.0.0.1:$port/a:1.0 &&
    ! grep -rq -e secret -e the-token data && rm -rf data/images/cache && mkdir -p bin && printf "#!/bin/sh\nread host; echo \"{\\\\\"Username\\\\\":\\\\\"bob\\\\\",\\\\\"Secret\\\\\":\\\\\"secret\\\\\"}\"\n" >bin/docker-credential-try &&
    chmod +x bin/docker-credential-try && echo "{\"credsStore\":\"try\"}" >home/.docker/config.json && PATH=$PWD/bin:$PATH HOME=$PWD/home run 0 doze image pull 127.0.0.1:$port/a:1.0 && stop
'
test_that 'a registry that fails now and then is asked again, where it stopped' '
    rm -rf data/images/cache && serve served --fail 2 && run 0 doze image pull 127.0.0.1:$port/a:1.0 && grep -q "bytes=" served.log && stop
'
test_that 'blobs that are not what the manifest says are refused' '
    rm -rf data/images/cache && serve served --lie && run 1 doze image pull 127.0.0.1:$port/a:1.0 && has err "is damaged: it is SHA-256" && stop &&
    serve served --long && run 1 doze image pull 127.0.0.1:$port/a:1.0 && has err "damaged" && stop
'
test_that 'interrupted, it leaves nothing but what it fetched' '
    rm -rf data/images/cache && serve served --fail 1000 && { doze image pull 127.0.0.1:$port/late:1.0 >out 2>err & } && pid=$! && sleep 0.7 && kill -INT $pid && ! wait $pid && stop &&
    [ -z "$(ls data/images/scratch 2>/dev/null)" ] && run 1 doze image inspect late:1.0
'
test_that 'the registry of Debian gives what was pushed to it, with a password' '
    command -v docker-registry >/dev/null || skip "docker-registry is not installed"
    port=$("$LIB_ROOT/tests/lib/free_port.py")
    mkdir -p stored && printf "version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: 127.0.0.1:%s}\n" "$PWD/stored" "$port" >registry.yml &&
    { docker-registry serve registry.yml >registry.out 2>&1 & } && echo $! >registry.pid && for _ in $(seq 100); do curl -sf http://127.0.0.1:$port/v2/ >/dev/null && break; sleep 0.1; done &&
    "$tools/push" app 127.0.0.1:$port team/app 1.0 && rm -rf data/images/cache && run 0 doze image pull 127.0.0.1:$port/team/app:1.0 -t real && run 0 doze run --image real && has out x
'
test_done
