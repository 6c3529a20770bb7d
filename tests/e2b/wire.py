#!/usr/bin/env python3
"""wire.py URL KEY OTHER_KEY: E2B's dialect by hand: what its packages send only sometimes, and what
no client should send. Prints a line for each failure; ends with 1 if there was one."""
import base64, hashlib, http.client, json, socket, struct, sys, urllib.parse

url, key, other = sys.argv[1:]
host = urllib.parse.urlsplit(url).netloc
failed = 0


def check(good, what, got=""):
    global failed
    if not good:
        failed += 1
        print(f"not ok {what}: {got!r}"[:500])


def call(method, path, body=None, headers=None, chunked=False):
    c = http.client.HTTPConnection(host, timeout=60)
    c.request(method, path, body=body, headers=headers or {}, encode_chunked=chunked)
    r = c.getresponse()
    data = r.read()
    c.close()
    return r, data


def rest(method, path, body=None, want=None, k=key, **headers):
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
    r, data = call(method, path, body, {"X-API-Key": k, **headers})
    if want:
        check(r.status == want, f"{method} {path}", (r.status, data))
    if r.status >= 400:
        try:
            o = json.loads(data)
            check(o["code"] == r.status and isinstance(o["message"], str), f"{method} {path}: the error", data)
        except (ValueError, KeyError, TypeError):
            check(False, f"{method} {path}: the error", data)
    check(r.status != 500, f"{method} {path}: no internal error", data)
    return json.loads(data) if data and r.status < 300 else r


def envelope(o, flags=0):
    text = o if isinstance(o, bytes) else json.dumps(o).encode()
    return struct.pack(">BI", flags, len(text)) + text


def messages(data):
    out = []
    while data:
        flags, n = struct.unpack(">BI", data[:5])
        out.append((flags, json.loads(data[5 : 5 + n])))
        data = data[5 + n :]
    return out


def data_headers(s, **more):
    return {"X-Access-Token": s["envdAccessToken"], "E2b-Sandbox-Id": s["sandboxID"], **more}


def unary(s, name, o, want=200, code=None):
    body = o if isinstance(o, bytes) else json.dumps(o).encode()
    r, data = call("POST", name, body, data_headers(s, **{"Content-Type": "application/json"}))
    check(r.status == want if want else r.status not in (500,), f"{name} {body[:60]}", (r.status, data))
    o = json.loads(data)
    check(not code or o.get("code") == code, f"{name} {body[:60]}: {code}", data)
    return o


def stream(s, name, body, chunked=False, **headers):
    r, data = call("POST", name, body, data_headers(s, **{"Content-Type": "application/connect+json", **headers}), chunked)
    check(r.status == 200, f"{name}: status", (r.status, data))
    check(r.getheader("Content-Type") == "application/connect+json", f"{name}: type", r.getheader("Content-Type"))
    m = messages(data)
    check(m and m[-1][0] == 2, f"{name}: the last message", m[-3:])
    return m


def fails(m, code):
    check(m[-1][1].get("error", {}).get("code") == code, f"a stream that fails with {code}", m)


# --- the objects that Python's client reads, and creation

SANDBOX = {"sandboxID", "templateID", "clientID", "envdVersion", "envdAccessToken", "domain"}
LISTED = {"templateID", "sandboxID", "clientID", "startedAt", "endAt", "cpuCount", "memoryMB", "diskSizeMB", "state", "envdVersion", "metadata"}
s = rest("POST", "/sandboxes", {"templateID": "base", "timeout": 300, "metadata": {"ä &=": "%41+ "}, "unknown": 1}, 201)
check(SANDBOX <= set(s), "the keys of a sandbox", s)
again = [rest("POST", "/v2/sandboxes", {"templateID": "base"}, 201, **{"Idempotency-Key": "k1"})["sandboxID"] for _ in range(2)]
check(again[0] == again[1] != s["sandboxID"], "an Idempotency-Key makes one sandbox", again)
info = rest("GET", f"/sandboxes/{s['sandboxID']}", want=200)
check(LISTED | {"lifecycle", "network", "envdAccessToken"} <= set(info), "the keys of an info", info)
check(info["metadata"] == {"ä &=": "%41+ "} and info["state"] == "running", "an info", info)
quote = lambda t: urllib.parse.quote(t, safe="")
filtered = lambda k, v: rest("GET", "/v2/sandboxes?metadata=" + quote(urllib.parse.urlencode({quote(k): quote(v)})), want=200)
check([x["sandboxID"] for x in filtered("ä &=", "%41+ ")] == [s["sandboxID"]], "a filter by metadata", filtered("ä &=", "%41+ "))
check(filtered("ä &=", "A+ ") == [], "a filter by other metadata")
long = {"ü" * 100: "ä" * 1000}
u = rest("POST", "/sandboxes", {"templateID": "base", "timeout": 300, "metadata": long}, 201)
check([x["sandboxID"] for x in filtered(*list(long.items())[0])] == [u["sandboxID"]], "a filter by long metadata")
check(filtered("k%", "v%2") == [], "a filter that ends in a part of an escape")
rest("DELETE", f"/sandboxes/{u['sandboxID']}", want=204)
check(len(rest("GET", "/sandboxes", want=200)) == 2, "the list of version 1")
check(len(rest("GET", "/v2/sandboxes?limit=1&order=asc", want=200)) == 1, "a page")
rest("DELETE", f"/sandboxes/{again[0]}", want=204)
many = [rest("POST", "/v2/sandboxes", {"templateID": "base", "metadata": {"many": str(i % 2)}}, 201)["sandboxID"] for i in range(70)]
for order, filtering, want in (("asc", "", [s["sandboxID"]] + many), ("desc", "", many[::-1] + [s["sandboxID"]]), ("asc", "&metadata=many%3D1", many[1::2]), ("desc", "&metadata=many%3D2", [])):
    for limit in (7, 35, 71):
        got, token = [], ""
        while token is not None:
            r, data = call("GET", f"/v2/sandboxes?limit={limit}&order={order}{filtering}&nextToken={token}", headers={"X-API-Key": key})
            got += [x["sandboxID"] for x in json.loads(data)]
            token = r.getheader("X-Next-Token")
        check(got == want, f"pages of {limit}, {order}{filtering}", (len(got), len(want)))
for i in many:
    rest("DELETE", f"/sandboxes/{i}", want=204)

# --- other tenants and wrong tokens

for method, path, body in (("GET", "", None), ("DELETE", "", None), ("POST", "/pause", {}), ("POST", "/connect", {"timeout": 5}), ("POST", "/timeout", {"timeout": 5}),
                           ("GET", "/metrics", None), ("PUT", "/network", {}), ("POST", "/snapshots", {}), ("POST", "/fork", {}), ("POST", "/refreshes", {})):
    rest(method, f"/sandboxes/{s['sandboxID']}{path}", body, 404, k=other)
check(rest("GET", "/v2/sandboxes", want=200, k=other) == [], "another tenant's list")
t = rest("POST", "/sandboxes", {"templateID": "base", "timeout": 300}, 201, k=other)
for token, sandbox in ((t["envdAccessToken"], s["sandboxID"]), (s["envdAccessToken"][:-1] + "x", s["sandboxID"]), ("", s["sandboxID"]), (s["envdAccessToken"].upper(), None), (key, s["sandboxID"])):
    headers = {"X-Access-Token": token, **({"E2b-Sandbox-Id": sandbox} if sandbox else {})}
    r, data = call("GET", "/files?path=/etc/passwd", headers=headers)
    check(r.status == 401 and json.loads(data)["code"] == 401, "a wrong access token", (r.status, data))
check(call("GET", "/v1/sandboxes", headers={"Authorization": "Bearer " + s["envdAccessToken"]})[0].status == 401, "an access token is none of the API")
check(call("GET", "/sandboxes", headers={"X-API-Key": s["envdAccessToken"]})[0].status == 401, "an access token is no key")
check(call("GET", "/files?path=/etc/passwd", headers={"X-Access-Token": t["envdAccessToken"]})[0].status == 200, "a token without an id")
rest("DELETE", f"/sandboxes/{t['sandboxID']}", want=204, k=other)
r, data = call("GET", "/files?path=/etc/passwd", headers=data_headers(t))
check(r.status == 502 and json.loads(data) == {"sandboxId": t["sandboxID"], "message": "The sandbox was not found", "code": 502}, "a killed sandbox", data)
check([call("GET", "/health", headers={"E2b-Sandbox-Id": i})[0].status for i in (s["sandboxID"], t["sandboxID"], "x")] == [204, 502, 502], "health")

# --- processes

stream_of = lambda *m: stream(s, "/process.Process/StreamInput", iter([envelope(x) for x in m]), True, **{"Transfer-Encoding": "chunked"})
start = lambda cmd, *args, **more: stream(s, "/process.Process/Start", envelope({"process": {"cmd": cmd, "args": args}, "stdin": False, **more}))
m = start("sh", "-c", "echo out; echo err >&2; exit 3")
check("start" in m[0][1]["event"], "the first event", m)
text = lambda m, name: b"".join(base64.b64decode(e["event"]["data"][name]) for _, e in m if name in e.get("event", {}).get("data", {}))
check((text(m, "stdout"), text(m, "stderr")) == (b"out\n", b"err\n"), "the output", m)
check(m[-2][1]["event"]["end"] == {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"} and m[-1] == (2, {}), "the end", m)
m = start("sh", "-c", "kill -9 $$")
check(m[-2][1]["event"]["end"] == {"exitCode": -1, "exited": False, "status": "signal: killed", "error": "signal: killed"}, "the end by a signal", m)
fails(stream(s, "/process.Process/Start", envelope({"process": {"cmd": "sh", "cwd": "/nowhere"}})), "invalid_argument")
fails(start("no-such-program"), "not_found")
fails(stream(s, "/process.Process/Start", envelope({"process": {"cmd": "true", "envs": {"A": "x" * 1200000}}})), "resource_exhausted")
m = stream(s, "/process.Process/Start", envelope({"process": {"cmd": "sleep", "args": ["1000"]}}), **{"Connect-Timeout-Ms": "300"})
fails(m, "deadline_exceeded")
check(unary(s, "/process.Process/List", {}) == {"processes": []}, "the deadline ends the process")

# a stream of input in one chunked request, and a keepalive on the stream that waits for it
c = http.client.HTTPConnection(host, timeout=60)
c.request("POST", "/process.Process/Start", envelope({"process": {"cmd": "cat"}, "tag": "cat"}), data_headers(s, **{"Content-Type": "application/connect+json", "Keepalive-Ping-Interval": "1"}))
r = c.getresponse()
def event():
    flags, n = struct.unpack(">BI", r.read(5))
    return flags, json.loads(r.read(n))
pid = event()[1]["event"]["start"]["pid"]
for wrong in ({"start": {}}, {"start": None}, {"start": 5}, {"start": {"process": {}}}, {"start": {"process": {"pid": 0}}}):
    fails(stream_of(wrong), "invalid_argument")
check(event() == (0, {"event": {"keepalive": {}}}), "a keepalive")
listed = unary(s, "/process.Process/List", {})["processes"]
check([(p["pid"], p["tag"], p["config"]["cmd"]) for p in listed] == [(pid, "cat", "cat")], "a process by its tag", listed)
b64 = lambda b: base64.b64encode(b).decode().rstrip("=")
feed = [envelope({"start": {"process": {"pid": str(pid)}}})] + [envelope({"data": {"input": {"stdin": b64(b"%d " % i)}}}) for i in range(50)] + [envelope({"keepalive": {}})]
feed = [b"".join(feed)[i : i + 7] for i in range(0, len(b"".join(feed)), 7)]  # a piece of the body has parts of two messages
m = stream(s, "/process.Process/StreamInput", iter(feed), True, **{"Transfer-Encoding": "chunked"})
check(m == [(0, {}), (2, {})], "a stream of input", m)
unary(s, "/process.Process/SendInput", {"process": {"tag": "cat"}, "input": {"stdin": b64(b"end")}})
unary(s, "/process.Process/CloseStdin", {"process": {"pid": pid}})
got, e = b"", (0, {})
while e[0] == 0 and "end" not in e[1].get("event", {}):
    e = event()
    got += base64.b64decode(e[1].get("event", {}).get("data", {}).get("stdout", ""))
check(got == b"".join(b"%d " % i for i in range(50)) + b"end", "input in its order", got)
c.close()
c = http.client.HTTPConnection(host, timeout=60)
c.request("POST", "/process.Process/Start", envelope({"process": {"cmd": "wc", "args": ["-c"]}}), data_headers(s, **{"Content-Type": "application/connect+json"}))
r = c.getresponse()
pid = event()[1]["event"]["start"]["pid"]
unary(s, "/process.Process/SendInput", {"process": {"pid": pid}, "input": {"stdin": b64(b"x" * (1 << 20))}})
unary(s, "/process.Process/CloseStdin", {"process": {"pid": pid}})
check(b"1048576" in base64.b64decode(event()[1]["event"]["data"]["stdout"]), "1 MiB of input")
c.close()
fails(stream(s, "/process.Process/StreamInput", iter([envelope({"start": {"process": {"pid": 99999}}})]), True, **{"Transfer-Encoding": "chunked"}), "not_found")
fails(stream(s, "/process.Process/StreamInput", iter([envelope({"data": {"input": {"stdin": ""}}})]), True, **{"Transfer-Encoding": "chunked"}), "invalid_argument")
fails(stream(s, "/process.Process/StreamInput", iter([envelope({"start": {"process": {"pid": 1}}})[:-3]]), True, **{"Transfer-Encoding": "chunked"}), "invalid_argument")
unary(s, "/process.Process/SendSignal", {"process": {"pid": 99999}, "signal": "SIGNAL_SIGKILL"}, 404, "not_found")
fails(stream(s, "/process.Process/Connect", envelope({"process": {"pid": 99999}})), "not_found")

# --- files

form = lambda *parts: b"".join(b'--B\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n%s\r\n' % p for p in parts) + b"--B--\r\n"
def upload(body, want, path="", kind="multipart/form-data; boundary=B", **headers):
    r, data = call("POST", "/files" + path, body, data_headers(s, **{"Content-Type": kind, **headers}))
    check(r.status == want, f"upload {body[:80]}", (r.status, data))
    return json.loads(data)
got = upload(form((b"/tmp/a", b"A\r\n--"), (b"rel/b", b""), (b"/tmp/q%22", b"--B")), 200)
check([x["path"] for x in got] == ["/tmp/a", "/home/user/rel/b", '/tmp/q"'], "an upload of three files", got)
check(call("GET", "/files?path=/tmp/a", headers=data_headers(s))[1] == b"A\r\n--", "the bytes of a part")
big = bytes(range(256)) * 4000 + b"\r\n--A\r\n-"
upload(form((b"/tmp/big", big)), 200)
check(call("GET", "/files?path=/tmp/big", headers=data_headers(s))[1] == big, "a large part")
r, data = call("GET", "/files?path=/tmp/big", headers=data_headers(s, Range="bytes=1-3"))
check((r.status, data) == (206, b"\1\2\3"), "a range", (r.status, data))
upload(b"x" * 300000, 200, "?path=/tmp/o", "application/octet-stream")
upload(b"", 200, "?path=/tmp/o", "application/octet-stream")
for body in (b"", b"x", b"--B", b"--B\r\n", b"--B\r\nx: y\r\n\r\n1\r\n--B--\r\n", b"--Bx", form((b"/tmp/a", b"1"))[:-6], b'--B\r\nContent-Disposition: form-data; filename="a\r\n\r\n1\r\n--B--', b"--B\r\n" + b"a" * 40000):
    upload(body, 400)
upload(form((b"/tmp", b"1")), 400)
upload(b"x", 400, "", "application/octet-stream")
upload(b"x", 400, "?path=/tmp/o", "text/plain")
upload(b"x", 415, "?path=/tmp/o", "application/octet-stream", **{"Content-Encoding": "gzip"})
got = upload(b"x", 400, "?path=/tmp/o", "application/octet-stream", **{"x-metadata-owner": "me"})
check("x-metadata-owner" in got["message"].lower(), "metadata of a file is refused by name", got)
upload(b"x", 400, "?path=/" + "a" * 5000, "application/octet-stream")
unary(s, "/filesystem.Filesystem/Stat", {"path": "/none"}, 404, "not_found")
unary(s, "/filesystem.Filesystem/MakeDir", {"path": "/tmp"}, 409, "already_exists")
unary(s, "/filesystem.Filesystem/MakeDir", {"path": "/tmp/a"}, 400, "invalid_argument")
unary(s, "/filesystem.Filesystem/ListDir", {"path": "/none", "depth": "1"}, 404, "not_found")
check(unary(s, "/filesystem.Filesystem/Stat", {"path": "~/rel/"})["entry"]["type"] == "FILE_TYPE_DIRECTORY", "a path below the home")

# --- watches, and URLs with a signature

fails(stream(s, "/filesystem.Filesystem/WatchDir", envelope({"path": "/none"})), "not_found")
fails(stream(s, "/filesystem.Filesystem/WatchDir", envelope({"path": "/tmp/a"})), "invalid_argument")
watcher = {"watcherId": unary(s, "/filesystem.Filesystem/CreateWatcher", {"path": "/tmp"})["watcherId"]}
upload(b"1", 200, "?path=/tmp/watched", "application/octet-stream")
events = []
while not any(e["name"] == "watched" for e in events):
    events += unary(s, "/filesystem.Filesystem/GetWatcherEvents", watcher)["events"]
t = rest("POST", "/sandboxes", {"templateID": "base", "timeout": 300}, 201)
unary(t, "/filesystem.Filesystem/GetWatcherEvents", watcher, 404, "not_found")
unary(s, "/filesystem.Filesystem/RemoveWatcher", watcher)
unary(s, "/filesystem.Filesystem/GetWatcherEvents", watcher, 404, "not_found")
for i in range(64):
    unary(t, "/filesystem.Filesystem/CreateWatcher", {"path": "/tmp"})
unary(t, "/filesystem.Filesystem/CreateWatcher", {"path": "/tmp"}, 429, "resource_exhausted")
rest("DELETE", f"/sandboxes/{t['sandboxID']}", want=204)
def signed(token, path="/tmp/a", until=None, what="read"):
    text = f"{path}:{what}::{token}" + (f":{until}" if until else "")
    signature = "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    return f"/files?path={path}&signature={quote(signature)}" + (f"&signature_expiration={until}" if until else "")
check(call("GET", signed(s["envdAccessToken"], until=4102444800))[1] == b"A\r\n--", "a signed URL")
split = signed(s["envdAccessToken"], "/tmp/a:read:x").replace(":read:x&", "&") + "&username=x:read:"
for bad in (split, signed(s["envdAccessToken"], until=1), signed(s["envdAccessToken"], what="write"), signed(t["envdAccessToken"]).replace("v1_", "v2_"), signed("x")):
    check(call("GET", bad)[0].status == 401, "a wrong signature", bad)
check(call("POST", "/process.Process/List?" + signed(s["envdAccessToken"]).split("?")[1], b"{}")[0].status == 401, "a signature is for files only")

# --- pauses

upload(b"kept", 200, "?path=/home/user/o2", "application/octet-stream")
rest("POST", f"/sandboxes/{s['sandboxID']}/resume", {"timeout": 60}, 409)
rest("POST", f"/sandboxes/{s['sandboxID']}/pause", None, 204)
rest("POST", f"/sandboxes/{s['sandboxID']}/pause", {}, 409)
rest("POST", f"/sandboxes/{s['sandboxID']}/fork", {}, 409)
rest("POST", f"/sandboxes/{s['sandboxID']}/timeout", {"timeout": 60}, 404)
r, data = call("POST", "/process.Process/Start", envelope({"process": {"cmd": "true"}}), data_headers(s, **{"Content-Type": "application/connect+json"}))
check(r.status == 502, "a command in a paused sandbox", (r.status, data))
rest("POST", f"/sandboxes/{s['sandboxID']}/connect", {"timeout": 0}, 400)
rest("POST", f"/sandboxes/{s['sandboxID']}/connect", {"timeout": 300}, 201)
rest("POST", f"/v2/sandboxes/{s['sandboxID']}/connect", {}, 200)
rest("POST", f"/sandboxes/{s['sandboxID']}/pause", {"memory": False}, 204)
rest("POST", f"/sandboxes/{s['sandboxID']}/resume", {"timeout": 300}, 201)
got = call("GET", "/files?path=/home/user/o2", headers=data_headers(s))
check((got[0].status, got[1]) == (200, b"kept"), "files after a pause without memory", got)

# --- what is refused by name

for body, name in (({"mcp": {"a": {}}}, "mcp"), ({"secrets": ["a"]}, "secrets"), ({"network": {"rules": {"a": [{}]}}}, "rules"), ({"network": {"egressProxy": {"address": "a"}}}, "egressProxy"),
                   ({"network": {"allowOut": ["a.example"], "denyOut": ["10.0.0.0/8"]}}, "allowOut"), ({"timeout": 0}, "timeout"), ({"timeout": "5"}, "timeout"), ({"metadata": {"a": 1}}, "metadata"),
                   ({"metadata": {"e2b": "x"}}, "e2b"), ({"envVars": []}, "envVars"), ({"autoPauseMemory": False}, "autoPause"), ({"templateID": 5}, "templateID"), ({"network": "x"}, "network"), ({"network": {"denyOut": "10.0.0.0/8"}}, "denyOut"),
                   ({"network": {"allowOut": 5}}, "allowOut"), ({"allow_internet_access": "false"}, "allow_internet_access"), ({"autoPause": "yes"}, "autoPause"), ({"autoResume": {"enabled": 1}}, "enabled"), ({"volumeMounts": {}}, "volumeMounts")):
    rest("POST", "/sandboxes", {"templateID": "base", **body}, 400)
rest("POST", "/sandboxes", {"templateID": "base", "metadata": {"k": "v" * 200000}}, 413)
check(rest("GET", "/snapshots?sandboxID=none", want=200) == [], "the snapshots of no sandbox")
for path in ("/v2/templates", "/v3/templates", "/volumes", "/volumes/x", "/secrets"):
    rest("POST", path, {}, 501)
rest("GET", f"/sandboxes/{s['sandboxID']}/logs", want=501)
rest("GET", "/templates/aliases/base", want=200)
rest("GET", "/templates/aliases/none", want=404)
rest("DELETE", "/templates/snap_none%3Adefault", want=404)

# --- what no client sends: an answer that is no internal error, always

bodies = [b"", b"x", b"[]", b"null", b'"x"', b"{", b'{"a":' * 3000, b"[" * 100000, b'{"process":5}', b'{"process":{"pid":-1}}', b'{"process":{"pid":1e99}}', b'{"process":{"pid":"x"}}', b'{"process":{"cmd":5}}',
          b'{"process":{"cmd":"a","args":[5]}}', b'{"process":{"cmd":"a","args":"x","envs":{"A":5}}}', b'{"process":{"cmd":""}}', b'{"process":{"cmd":"true"},"pty":{"size":{"cols":0,"rows":99999}}}', b'{"path":5}', b'{"path":""}', b'{"path":"/\\u0000"}',
          b'{"path":"/tmp","depth":-5}', b'{"path":"' + b"a" * 9000 + b'"}', b'{"source":"/x","destination":{}}', b'{"timeout":-1}', b'{"timeout":1e30}', b'{"timeout":99999999999}', b'{"count":-1}', b'{"count":"x"}', b'{"name":"a b/c"}', b'{"templateID":"\\ud800"}', b"\xff\xfe",
          b'{"process":{"tag":"%s"},"signal":9,"input":{"stdin":"!"}}' % (b"t" * 9000), b'{"process":{"pid":1},"input":{"stdin":"!"}}', b'{"allowOut":5}', b'{"allowOut":[5]}', b'{"metadata":{"k":"' + b"v" * 200000 + b'"}}']
gone = rest("POST", "/sandboxes", {"templateID": "base", "timeout": 60}, 201)["sandboxID"]
for body in bodies:
    for path in ("/sandboxes", "/v2/sandboxes", *(f"/sandboxes/{gone}/{w}" for w in ("connect", "resume", "refreshes", "snapshots", "fork")), f"/sandboxes/{'0' * 20}/pause", "/sandboxes/x/pause"):
        rest("POST", path, body)
    rest("PUT", f"/sandboxes/{gone}/network", body)
    for name in ("process.Process/List", "process.Process/SendInput", "process.Process/CloseStdin", "process.Process/SendSignal", "process.Process/Update",
                 "filesystem.Filesystem/Stat", "filesystem.Filesystem/ListDir", "filesystem.Filesystem/MakeDir", "filesystem.Filesystem/Move", "filesystem.Filesystem/CreateWatcher", "filesystem.Filesystem/GetWatcherEvents", "filesystem.Filesystem/RemoveWatcher"):
        unary(s, "/" + name, body, None)
    for name in ("process.Process/Start", "process.Process/Connect", "process.Process/StreamInput", "filesystem.Filesystem/WatchDir"):
        if name.endswith("WatchDir") and b'"/tmp"' in body: # a watch, which does not end
            continue
        for raw in (envelope(body), envelope(body)[:-1], envelope(body, 1), b"\0\xff\xff\xff\xff", body):
            r, data = call("POST", f"/{name}", raw, data_headers(s, **{"Content-Type": "application/connect+json"}))
            check(r.status == 200 and messages(data)[-1][0] == 2 or r.status in (413, 429), f"{name} {raw[:40]}", (r.status, data))
for query in ("limit=0", "limit=x", "limit=99999", "nextToken=x", "startedAfter=x", "metadata=%", "metadata=%25%25", "state=x", "metadata==&&=", "template=" + "a" * 3000):
    rest("GET", "/v2/sandboxes?" + query)
    rest("GET", "/snapshots?" + query)
for x in rest("GET", "/v2/sandboxes", want=200):
    rest("DELETE", f"/sandboxes/{x['sandboxID']}", want=204)
sys.exit(1 if failed else 0)
