#!/bin/bash
# manual pages: one for each command and for doze.ini, and groff has nothing to say about them.
. "$(dirname "$0")/lib.sh"
mkdir man
doze help --man man || { echo "Bail out! no pages"; exit 1; }

test_that 'each command has a page that says its summary and options' '
    [ "$(find man -name "doze-*.1" | wc -l)" -eq "$(doze help --all | grep -c "^usage: doze ")" ] &&
    has man/doze-exec.1 "run a command in a sandbox" &&
    has man/doze-image-build.1 ".TH \"doze-image-build\" 1" &&
    for o in $(doze create --help | grep -oE -- "--[a-z-]+" | sort -u | sed "s/-/\\\\\\\\-/g"); do
        grep -q -- "$o" man/doze-create.1 || { echo "no $o"; exit 1; }
    done
'

test_that 'doze.1 lists every command, and doze.ini.5 every setting' '
    for page in man/doze-*.1; do
        name=$(basename "$page" .1 | sed "s/-/\\\\\\\\-/g")
        grep -q "^.fB$name.fR(1)" man/doze.1 || { echo "no $name"; exit 1; }
    done
    for key in $(doze config | tail -n +2 | sed "s/ .*//; s/.*\.//" | sort -u); do
        grep -q "^#$key =" man/doze.ini.5 || { echo "no $key"; exit 1; }
    done
'

test_that 'the formatter has no complaint, and shows what was written' '
    for page in man/*; do
        LC_ALL=C.UTF-8 MANROFFSEQ= MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null
    done >warnings; empty warnings &&
    MANWIDTH=78 man -l -Tascii man/doze-exec.1 | sed "s/.\x08//g" >shown && has shown "doze exec [OPTION...] SANDBOX" &&
    MANWIDTH=78 man -l -Tascii man/doze-completion.1 | sed "s/.\x08//g" >shown && has shown "source <(doze completion bash)"
'

test_done
