"""schema_proxy LISTEN DAEMON REPORT: a proxy between unix sockets that holds bodies against the contract.

Each request and answer that has a JSON body is compared with its schema in the daemon's own
/openapi.json. REPORT gets a line "bodies N" whenever a connection ends, and one for each body that
differs or that the document does not know. Streams pass byte by byte.
"""
import json
import re
import socket
import sys
import threading
from urllib.parse import urlsplit

listen, daemon, report = sys.argv[1:4]
lock = threading.Lock()
seen = [0]
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def say(line):
    with lock, open(report, "a") as f:
        f.write(line + "\n")


def is_type(value, name):
    if name in ("integer", "number"):
        return isinstance(value, int if name == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


class Contract:
    """The keywords of JSON Schema that src/api/schemas uses; another one is an error of its own."""

    KNOWN = set("""type enum const pattern minimum maximum minLength maxLength minItems maxItems maxProperties items
        properties required additionalProperties allOf oneOf anyOf $ref unevaluatedProperties description examples
        default format title""".split())

    def __init__(self, document):
        self.document = document
        self.routes = []
        for path, methods in document["paths"].items():
            pattern = re.compile(re.sub(r"\\\{[^/]*?\\\}", "[^/]+", re.escape(path)) + "$")
            self.routes += [(method.upper(), path, pattern, what) for method, what in methods.items()
                            if isinstance(what, dict)]
        self.routes.sort(key=lambda r: r[1].count("{"))

    def operation(self, method, path):
        return next((what for m, _, pattern, what in self.routes if m == method and pattern.match(path)), None)

    def follow(self, schema):
        while "$ref" in schema:
            at = self.document
            for word in schema["$ref"][2:].split("/"):
                at = at[word]
            schema = at
        return schema

    def names(self, schema):
        schema = self.follow(schema)
        found = set(schema.get("properties", {}))
        for part in schema.get("allOf", []):
            found |= self.names(part)
        return found

    def errors(self, value, schema, at="$"):
        schema = self.follow(schema)
        for word in set(schema) - self.KNOWN:
            yield "%s: the keyword %s of its schema is not known here" % (at, word)
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds and not any(is_type(value, kind) for kind in kinds):
            yield "%s: %s is not of the type %s" % (at, json.dumps(value)[:80], "/".join(kinds))
            return
        if "enum" in schema and value not in schema["enum"] or "const" in schema and value != schema["const"]:
            yield "%s: %s is not allowed" % (at, json.dumps(value))
        if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
            yield "%s: %s does not match %s" % (at, value, schema["pattern"])
        if is_type(value, "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield "%s: %s is out of range" % (at, value)
        if isinstance(value, list):
            for i, item in enumerate(value):
                yield from self.errors(item, schema.get("items", {}), "%s[%d]" % (at, i))
        if isinstance(value, dict):
            known = schema.get("properties", {})
            for name in schema.get("required", []):
                if name not in value:
                    yield "%s: %s is missing" % (at, name)
            rest = schema.get("additionalProperties", True)
            for name, item in value.items():
                if name in known:
                    yield from self.errors(item, known[name], at + "." + name)
                elif rest is False:
                    yield "%s: %s is not known" % (at, name)
                elif isinstance(rest, dict):
                    yield from self.errors(item, rest, at + "." + name)
            if schema.get("unevaluatedProperties") is False:
                for name in set(value) - self.names(schema):
                    yield "%s: %s is not known" % (at, name)
        for part in schema.get("allOf", []):
            yield from self.errors(value, part, at)
        for word in ("oneOf", "anyOf"):
            if word in schema:
                tries = [list(self.errors(value, part, at)) for part in schema[word]]
                if all(tries):
                    yield min(tries, key=len)[0]


def check(what, value, body, kind):
    """body: a requestBody or an answer of the document."""
    schema = (body or {}).get("content", {}).get("application/json", {}).get("schema")
    with lock:
        seen[0] += 1
    if schema is None:
        say("%s: the document has no JSON %s" % (what, kind))
        return
    for error in contract.errors(value, schema):
        say("%s: %s %s" % (what, kind, error))


class Side:
    def __init__(self, sock):
        self.sock, self.buffer = sock, b""

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        self.buffer += data

    def until(self, end):
        while end not in self.buffer:
            self.more()
        at = self.buffer.index(end) + len(end)
        data, self.buffer = self.buffer[:at], self.buffer[at:]
        return data

    def exactly(self, n):
        while len(self.buffer) < n:
            self.more()
        data, self.buffer = self.buffer[:n], self.buffer[n:]
        return data


def headers_of(head):
    lines = head.decode("latin-1").split("\r\n")
    return lines[0], {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:] if line)}


def body_through(source, to, headers):
    """Pass a body on; its bytes if it is JSON."""
    keep = "json" in headers.get("content-type", "")
    kept = b""
    if "chunked" in headers.get("transfer-encoding", ""):
        while True:
            line = source.until(b"\r\n")
            data = source.exactly(int(line, 16) + 2)
            to.sock.sendall(line + data)
            kept += data[:-2] if keep else b""
            if data == b"\r\n":
                return kept
    left = int(headers.get("content-length", 0))
    while left:
        if not source.buffer:
            source.more()
        data = source.exactly(min(left, len(source.buffer)))
        left -= len(data)
        to.sock.sendall(data)
        kept += data if keep else b""
    return kept


def one(client, server):
    head = client.until(b"\r\n\r\n")
    line, headers = headers_of(head)
    method, target, _ = line.split(" ")
    path = urlsplit(target).path
    what = "%s %s" % (method, path)
    server.sock.sendall(head)
    if headers.get("upgrade"):
        pump = threading.Thread(target=copy, args=(client, server), daemon=True)
        pump.start()
        copy(server, client)
        raise EOFError
    body = body_through(client, server, headers)
    operation = contract.operation(method, path)
    sent = body
    head = server.until(b"\r\n\r\n")
    line, headers = headers_of(head)
    status = line.split(" ")[1]
    client.sock.sendall(head)
    if sent and status.startswith("2"):  # what the daemon refuses may be against the contract
        check(what, json.loads(sent), (operation or {}).get("requestBody"), "request")
    if method == "HEAD" or status in ("204", "304"):
        return
    body = body_through(server, client, headers)
    if body and operation and path != "/openapi.json":
        answers = operation["responses"]
        answer = contract.follow(answers[status]) if status in answers else None
        check("%s -> %s" % (what, status), json.loads(body), answer, "answer")


def copy(a, b):
    try:
        while True:
            if not a.buffer:
                a.more()
            data, a.buffer = a.buffer, b""
            b.sock.sendall(data)
    except (OSError, EOFError):
        a.sock.close()
        b.sock.close()


def serve(sock):
    server = socket.socket(socket.AF_UNIX)
    try:
        server.connect(daemon)
        a, b = Side(sock), Side(server)
        while True:
            one(a, b)
    except (OSError, EOFError):
        pass
    finally:
        sock.close()
        server.close()
        say("bodies %d" % seen[0])


def document():
    s = socket.socket(socket.AF_UNIX)
    s.connect(daemon)
    s.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: d\r\nConnection: close\r\n\r\n")
    side = Side(s)
    _, headers = headers_of(side.until(b"\r\n\r\n"))
    sink = type("", (), {"sock": type("", (), {"sendall": lambda self, data: None})()})()
    return json.loads(body_through(side, sink, headers))


contract = Contract(document())
door = socket.socket(socket.AF_UNIX)
door.bind(listen)
door.listen(64)
print("ready", flush=True)
while True:
    accepted, _ = door.accept()
    threading.Thread(target=serve, args=(accepted,), daemon=True).start()
