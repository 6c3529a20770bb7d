#!/bin/bash
# What users of an image must know first: notes, and what importing numpy says. The image python
# itself is tested by t0410-image-python.sh; here its sitecustomize runs in this machine's Python.
. "$(dirname "$0")/lib.sh"
with_base
export DOZE_DATA=$PWD/data
mkdir empty lib && cp "$LIB_ROOT/images/python/sitecustomize.py" lib/ && mkdir lib/numpy lib/numpy/linalg &&
    touch lib/numpy/__init__.py lib/numpy/linalg/__init__.py
doze image build -q --from "$DOZE_BASE" --from-dir empty -t base >/dev/null || { echo "Bail out! no image"; exit 1; }
# py CODE: with the image's sitecustomize, and a numpy that is empty
py() {
    command -v python3 >/dev/null || skip 'no python3 here'
    run 0 env PYTHONPATH=lib python3 -S -c "import sitecustomize
$1"
}

test_that 'importing numpy says once that its default integer has 32 bits' '
    py "import numpy.linalg, numpy, json" && lines err 1 && has err "32 bits" && has err "dtype=np.int64" && empty out
'
test_that 'a program that does not import numpy hears nothing' '
    py "import json, sys
assert \"numpy\" not in sys.modules" && empty err
'
test_that 'DOZE_NUMPY_QUIET=1 silences it, 0 does not' '
    DOZE_NUMPY_QUIET=1 py "import numpy" && empty err && DOZE_NUMPY_QUIET=0 py "import numpy" && lines err 1
'
test_that 'notes of a recipe are what inspect shows first, and a child keeps them' '
    printf "[image]\nname = first\nfrom = base\nnote = first of all: 32 bits\nnote = and another\n[file /a]\ntext = a\n" >r.ini &&
    printf "[image]\nname = second\nfrom = first\nnote = its own\n[file /b]\ntext = b\n" >s.ini &&
    run 0 doze image build -q r.ini && run 0 doze image build -q s.ini &&
    run 0 doze image inspect first && [ "$(head -1 out)" = "note       first of all: 32 bits" ] && [ "$(sed -n 2p out)" = "           and another" ] &&
    run 0 doze image inspect second && [ "$(head -2 out)" = "note       its own
           first of all: 32 bits" ] && run 0 doze image inspect --json second && has out "\"note\":" && run 0 doze image verify
'
test_that 'too many notes are refused' '
    { printf "[image]\nname = many\nfrom = base\n"; for i in $(seq 17); do echo "note = $i"; done; } >m.ini &&
    run 1 doze image build -q m.ini && has err "notes"
'
test_done
