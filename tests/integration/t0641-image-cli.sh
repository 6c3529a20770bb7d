#!/bin/bash
# doze image: the cause of a failed build in the terminal. Needs no network and no compiler.
. "$(dirname "$0")/lib.sh"
with_base
export DOZE_DATA=$PWD/data
mkdir empty && doze image build -q --from "$DOZE_BASE" --from-dir empty -t base >/dev/null || { echo "Bail out! no image"; exit 1; }

# A compiler that finds an error: 60 lines before it, 60 behind it.
mkdir -p guest/lib && : >guest/lib/crt1.o && : >guest/lib/libposix.o && cat >guest/doze-cc <<'C'
#!/bin/sh
for i in $(seq 60); do echo "compiling part $i"; done
printf 'hello.c:2:5: error: use of undeclared identifier \033[1mfoo\n    foo();\n    ^\n'
for i in $(seq 60); do echo "note $i"; done
echo '1 error generated.'
exit 1
C
chmod +x guest/doze-cc && echo 'int main(void) { foo(); }' >hello.c
printf '[image]\nname = bad\nfrom = base\n[c /usr/bin/hello]\nsource = hello.c\n' >compile
test_that 'a compile error is shown: from its first line on, not what was before, and escaped' '
    run 1 doze image build -q --guest guest compile && has err "  hello.c:2:5: error: use of undeclared identifier \\x1b[1mfoo" && has err "  foo();" &&
    lacks err "compiling part" && has err "doze-cc failed: hello.c:2:5: error:" && has err "the log has more" && [ "$(wc -l <err)" -lt 50 ] &&
    lacks err "$(printf "\\033")"
'
test_that 'a tool that speaks of no error: all that it printed, its last line in the sentence' '
    printf "#!/bin/sh\\necho one\\necho two\\nexit 3\\n" >guest/doze-cc && run 1 doze image build -t bad --guest guest compile &&
    has err "  one" && has err "  two" && has err "doze-cc failed: two" && has err "the log is"
'
test_that 'a hash mismatch says what was expected and what came' '
    tar cf a.tar hello.c && zero=$(printf %064d 0) && printf "[image]\\nname = bad\\n[tar /z]\\nsource = a.tar\\nsha256 = %s\\n" "$zero" >hash &&
    run 1 doze image build hash && has err "hash mismatch: expected SHA-256 $zero, got $(sha256sum a.tar | cut -c1-64)"
'
test_done
