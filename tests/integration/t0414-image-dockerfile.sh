#!/bin/bash
# Dockerfiles: instructions, contexts, the cache, what is refused, and hostile contexts.
. "$(dirname "$0")/lib.sh"
export DOZE_DATA=$PWD/data TMPDIR=$PWD/temp
mkdir temp
tools=$LIB_ROOT/tests/oci
cat >base.spec <<'S'
name mini:1
config Env ["PATH=/bin","FROM_BASE=yes"]
config Cmd ["/bin/sh"]
layer
dir bin 755
copy bin/sh 755 /bin/dash
copy bin/cat 755 /bin/cat
dir lib64 755
copy lib64/ld-linux-x86-64.so.2 755 /lib64/ld-linux-x86-64.so.2
dir lib 755
dir lib/x86_64-linux-gnu 755
copy lib/x86_64-linux-gnu/libc.so.6 755 /lib/x86_64-linux-gnu/libc.so.6
dir etc 755
file etc/passwd 644 root:x:0:0::/:/bin/sh\nbob:x:1000:1001::/:/bin/sh\n
file etc/group 644 root:x:0:\nstaff:x:50:\n
dir tmp 1777
link sbin bin
S
"$tools/make-image" base.spec base && doze image import -q base >/dev/null || { echo "Bail out! no image"; exit 1; }
mkdir ctx

# build [OPTION...] <DOCKERFILE: the image b, of ctx
build() { cat >Dockerfile && doze image build -q -f Dockerfile -t b "$@" ctx; }
# builds, refused SENTENCE [OPTION...]: likewise, with the result that a test expects
builds() { run 0 build "$@"; }
refused() { local why=$1; shift && run 1 build "$@" && has err "$why"; }
# files: of b, as tar tells them
files() { rm -f look.doze && doze image export -q b look.doze && doze disk tar look.doze | tar tvf - | sed 's/  */ /g'; }
in_b() { run 0 doze run --image b -- /bin/sh -c "$1"; }

test_that 'instructions: variables, directories, users, files, commands, ports' '
    mkdir -p ctx/src/deep && echo one >ctx/src/one && echo two >ctx/src/deep/two && ln -s one ctx/src/link && echo main >ctx/main.sh && chmod 755 ctx/main.sh &&
    builds --build-arg VERSION=2 <<"D" && in_b "cat /log /srv/app/sub/one /srv/app/sub/deep/two /srv/app/main.sh; echo \$GREETING \$PATH \$FROM_BASE" || exit 1
# syntax=docker/dockerfile:1
ARG BASE=mini:1
FROM --platform=linux/amd64 ${BASE} AS only
ARG VERSION=1 OTHER
ENV GREETING="hello  world" PATH=/opt:$PATH
LABEL a=b \
    # a comment within
    c="d e"
WORKDIR /srv
WORKDIR app
RUN echo "$VERSION-$GREETING-${VERSION}" >/log && \
    echo second >>/log
COPY src sub/
COPY --chown=bob:staff --chmod=640 main.sh ./
RUN <<END
read x </srv/app/sub/link
echo "from link: $x" >>/log
END
RUN cat >>/log <<"END" && echo after >>/log
literal $VERSION
END
SHELL ["/bin/sh", "-e", "-c"]
RUN ["/bin/sh", "-c", "echo exec $VERSION >>/log"]
USER bob
RUN echo bob >/tmp/bob
EXPOSE 8080 53/udp
STOPSIGNAL QUIT
ENTRYPOINT ["/bin/sh", "-c"]
CMD ["echo $GREETING from $0", "cmd"]
D
    printf "2-hello  world-2\nsecond\nfrom link: one\nliteral \$VERSION\nafter\nexec 2\none\ntwo\nmain\nhello world /opt:/bin yes\n" | diff - out &&
    run 0 doze run --image b && has out "hello world from cmd" && run 0 doze image inspect b && has out "ports      8080/tcp" && has out "stop       SIGQUIT" && has out "user       bob" && has out "workdir    /srv/app" &&
    run 0 files && has out "-rw-r----- 1000/50 5 1970-01-01 00:00 srv/app/main.sh" && has out "1000/1001 4 " && has out "srv/app/sub/link -> one"
'
test_that 'a step is done again only if it or one before it has changed' '
    d() { printf "FROM mini:1\nRUN echo first >/one; read x </proc/sys/kernel/random/uuid; echo \$x >/id\nCOPY src /src\nRUN echo $1 >/last\n"; }
    d a | builds && id=$(cat out) && in_b "cat /id" && cp out first && touch ctx/src/one && d a | builds && [ "$(cat out)" = "$id" ] && d b | builds && in_b "cat /id /last" && has out b && head -1 out | cmp - first &&
    echo changed >ctx/src/one && d b | builds && in_b "cat /id /src/one" && has out changed && head -1 out | cmp - first && d b | builds --fresh && in_b "cat /id" && ! cmp -s out first && d b | sed "s/first/2nd/" | builds && in_b "cat /one" && has out 2nd
'
test_that 'a step that fails names its line and shows what it printed; nothing is left but the cache' '
    refused "Dockerfile:3: RUN echo to out; echo to err >&2; exit 7: exit status 7" <<"D" && has err "  to out" && has err "  to err" && [ -z "$(ls -d temp/doze-build.* 2>/dev/null)" ] || exit 1
FROM mini:1
RUN echo fine
RUN echo to out; echo to err >&2; exit 7
D
    refused "Dockerfile:2: RUN" <<"D"
FROM mini:1
RUN nonsense
D
'
test_that 'RUN runs in a sandbox, not on this machine' '
    echo secret >"$PWD/host-file" && printf "FROM mini:1\nRUN [ ! -e %s ] && echo x >/host-only && [ ! -e /home ] && [ ! -e /usr/bin/env ]\n" "$PWD/host-file" | builds && [ ! -e /host-only ]
'
test_that 'what is not supported is refused by name and line' '
    for d in "2: a second FROM;FROM mini:1" "2: HEALTHCHECK is not supported;HEALTHCHECK NONE" "2: ONBUILD is not supported;ONBUILD RUN x" "2: VOLUME is not supported;VOLUME /x" "2: ADD of a URL;ADD http://h/x /x" \
        "2: COPY --from;COPY --from=0 /x /x" "2: RUN --mount is not;RUN --mount=type=cache,target=/x x" "2: NONSENSE is not an instr;NONSENSE x" "2: EXPOSE: x is not;EXPOSE x" "2: STOPSIGNAL: X;STOPSIGNAL X" \
        "2: COPY --chmod must;COPY --chmod=u+x main.sh /" "2: COPY needs a source;COPY main.sh" "2: ENV needs;ENV =x" "2: SHELL needs;SHELL /bin/sh" "2: \${X!y};ENV A=\${X!y}" "2: RUN needs a command;RUN" \
        "2: COPY of a here-doc;COPY <<E /x\nE" "2: the here-document has no end;RUN <<E\nx" "2: CMD: a word;CMD [\"\"]" "2: ENV: a quote;ENV A=\"x" "2: expected an instruction;&& x" "2: COPY of several;COPY main.sh src /x"; do
        printf "FROM mini:1\n${d#*;}\n" | refused "Dockerfile:${d%%;*}" || exit 1
    done
    printf "RUN x\n" | refused "1: RUN before FROM" && printf "FROM scratch\n" | refused "1: FROM scratch" && printf "# nothing\n" | refused "there is no FROM" && printf "FROM nothing\n" | refused "1: FROM nothing: there is no image" &&
    printf "# escape=\`\nFROM mini:1\n" | refused "1: the escape character" && printf "FROM --platform=linux/arm64 mini:1\n" | refused "only linux/amd64" && tar cf ctx/a.tar -C ctx main.sh && printf "FROM mini:1\nADD a.tar /\n" | refused "ADD would unpack a.tar" &&
    printf "FROM mini:1\nADD main.sh /added\n" | builds && in_b "cat /added" && has out main && rm ctx/a.tar
'
test_that 'a hostile context: links, paths and devices do not lead out of it' '
    mkdir -p outside/d && echo secret >outside/f && ln -s ../outside/f ctx/file-link && ln -s ../outside/d ctx/dir-link && ln -s /etc/passwd ctx/abs-link && mkfifo ctx/pipe && mkdir ctx/tree && ln -s ../../outside/f ctx/tree/l && ln -s src ctx/inner &&
    for s in "../outside/f" "src/../../outside/f" "file-link" "dir-link" "dir-link/x" "abs-link"; do printf "FROM mini:1\nCOPY %s /x\n" "$s" | refused "leads out of the context" || exit 1; done
    printf "FROM mini:1\nCOPY pipe /x\n" | refused "pipe is a pipe" && printf "FROM mini:1\nCOPY . /x/\n" | refused "pipe is a pipe" && printf "FROM mini:1\nCOPY missing /x\n" | refused "missing is not in the context" && printf "FROM mini:1\nCOPY no*thing /x\n" | refused "nothing in the context" &&
    printf "FROM mini:1\nCOPY tree /t/\nCOPY inner /i\n" | builds && run 0 files && has out "t/l -> ../../outside/f" && has out " i/one" && lacks out secret && rm ctx/pipe
'
test_that 'files that change between the start of the build and their COPY are refused' '
    echo old >ctx/late && printf "FROM mini:1\nRUN echo begun; i=0; while [ \$i -lt 2000000 ]; do i=\$((i + 1)); done\nCOPY late /late\n" >Dockerfile && {
        doze image build -q -f Dockerfile -t changing ctx >late.out 2>late.err &
        pid=$!
    } && while kill -0 $pid 2>/dev/null && ! grep -rqs begun data/images; do read -rt 0.05 <> <(:) || :; done
    echo new >ctx/late; ! wait $pid && has late.err "Dockerfile:3: COPY late /late: its files changed during the build" && run 0 doze image build -q -f Dockerfile -t changing ctx && run 0 doze run --image changing -- /bin/cat /late && has out new
'
test_that '.dockerignore leaves files out, and keeps some again' '
    mkdir -p ctx/n/m && for f in a.md b.txt keep.md m/c.md m/d.txt; do echo $f >ctx/n/$f; done && printf "# what is not wanted\n**/*.md\n!n/keep.md\n/src\n.dockerignore\n" >ctx/.dockerignore &&
    printf "FROM mini:1\nCOPY . /all/\nCOPY n/*.md /md/\n" | builds && run 0 files && has out "all/n/keep.md" && has out "all/n/m/d.txt" && lacks out "a.md" && lacks out "c.md" && lacks out "all/src/one" && lacks out dockerignore && has out " md/keep.md" &&
    printf "FROM mini:1\nCOPY n/a.md /x\n" | refused "left out by .dockerignore" && rm ctx/.dockerignore
'
test_that 'targets: a link of the image is followed, a directory is not replaced' '
    printf "FROM mini:1\nCOPY main.sh /sbin/tool\nCOPY src/one src/deep/two /made/here/\nRUN tool 2>/dev/null; [ -x /bin/tool ]\n" | builds && run 0 files && has out " bin/tool" && has out "sbin -> bin" && has out "made/here/two" &&
    printf "FROM mini:1\nCOPY main.sh /etc\n" | refused "the files could not be stored"
'
test_that 'a directory with a Dockerfile is enough; names and options are checked' '
    printf "FROM mini:1\nENTRYPOINT echo from \$0\nCMD ignored\n" >ctx/Dockerfile && run 0 doze image build -q -t b ctx && run 0 doze run --image b && has out "from /bin/sh" && rm ctx/Dockerfile && run 1 doze image build -t b ctx &&
    run 2 doze image build -f Dockerfile ctx && run 2 doze image build -f Dockerfile -t b && run 2 doze image build -f Dockerfile --build-arg x -t b ctx && run 2 doze image build -f Dockerfile --from mini -t b ctx && run 2 doze image build --build-arg a=b -t b recipe &&
    run 1 doze image build -f nothing -t b ctx && run 1 doze image build -f Dockerfile -t b nothing
'
test_that 'it can be stopped' '
    printf "FROM mini:1\nRUN while :; do :; done\n" >Dockerfile && { doze image build -f Dockerfile -t changing ctx >out 2>err & } && pid=$! && for _ in $(seq 400); do grep -q RUN data/images/logs/late* 2>/dev/null || ls temp/doze-build.*/disk.doze >/dev/null 2>&1 && break; read -rt 0.05 <> <(:) || :; done
    kill -INT $pid && ! wait $pid && run 1 doze image inspect late && [ -z "$(ls -d temp/doze-build.* 2>/dev/null)" ]
'
test_done
