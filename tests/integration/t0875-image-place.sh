#!/bin/bash
# doze image ls says where images are, when DOZE_DATA names another place than the default one.
. "$(dirname "$0")/lib.sh"
with_base
mkdir empty
build() {
    run 0 doze image build -q --from "$DOZE_BASE" --from-dir empty -t "$1"
}

test_that 'in the default data directory there is nothing to say' '
    build one && run 0 doze image ls && has out one:latest && empty err &&
    [ -e "$HOME/.local/share/doze/images" ] &&
    DOZE_DATA=$HOME/.local/share/doze run 0 doze image ls && has out one:latest && empty err &&
    DOZE_DATA= run 0 doze image ls && has out one:latest && empty err
'

test_that 'in another one the directory is named, as an absolute path' '
    export DOZE_DATA=data && build two && run 0 doze image ls && has out two:latest && lacks out one:latest &&
    has err "DOZE_DATA: the images are in $PWD/data/images" && [ -e data/images ] &&
    lacks out "$PWD"
'

test_that 'also when there are none, which is why somebody may miss his images' '
    export DOZE_DATA=$PWD/none && run 0 doze image ls && lacks out latest && has err "no images in $PWD/none/images"
'

test_that 'XDG_DATA_HOME is a default, too' '
    export XDG_DATA_HOME=$PWD/xdg && build three && run 0 doze image ls && has out three:latest && empty err &&
    [ -e xdg/doze/images ] && DOZE_DATA=$HOME/.local/share/doze run 0 doze image ls && has err ".local/share/doze/images"
'

test_that 'scripts get their lines and no note' '
    export DOZE_DATA=data && run 0 doze image ls -q && lines out 1 && empty err &&
    run 0 doze image ls --json && empty err
'

test_done
