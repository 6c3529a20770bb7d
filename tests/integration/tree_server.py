#!/usr/bin/env python3
"""A daemon whose cell has been taken over: what `doze cp -r NAME:/x TARGET` gets is up to NAME.

tree_server.py PORT_FILE: listens on 127.0.0.1 and writes the port."""
import http.server, io, sys, tarfile, threading, urllib.parse

REG, LINK, SYM, CHR, FIFO, DIR = (tarfile.REGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE,
                                  tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE)


def member(name, kind=REG, data=b"", link="", mode=0o644):
    t = tarfile.TarInfo(name)
    t.type, t.size, t.linkname, t.mode = kind, len(data), link, mode
    return t.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)


def lying(name, size):
    t = tarfile.TarInfo(name)
    t.size = size
    return t.tobuf(tarfile.GNU_FORMAT)


good = member("good", data=b"good")
trees = {
    "dots": [good, member("../evil", data=b"evil")],
    "deepdots": [member("a", DIR, mode=0o755), member("a/../../evil", data=b"evil")],
    "absolute": [good, member("/tmp/doze-tree-evil", data=b"evil")],
    "dotsdir": [member("../evil", DIR)],
    "dotslink": [member("../evil", SYM, link="good")],
    "through": [member("l", SYM, link="../victim"), member("l/f", data=b"evil")],
    "throughtop": [member("l", SYM, link="."), member("l/f", data=b"fine")],
    "dirlink": [member("l", SYM, link="../victim"), member("l", DIR, mode=0o777)],
    "hardout": [member("h", LINK, link="../victim/f")],
    "hardabs": [member("h", LINK, link="/etc/passwd")],
    "hardmine": [member("h", LINK, link="mine")],
    "twice": [member("f", data=b"one"), member("f", data=b"two")],
    "twicekinds": [member("f", data=b"one"), member("f", DIR), member("f/x", data=b"x")],
    "huge": [good, lying("f", 1 << 62)],
    "negative": [good, lying("f", -1)],
    "setid": [member("f", data=b"x", mode=0o6755), member("d", DIR, mode=0o3777)],
    "devices": [member("dev", CHR, mode=0o666), member("pipe", FIFO), good],
    "odd": [member("odd", b"Z"), good],
    "orphan": [member("no/such/f", data=b"x")],
    "cut": [good, member("f", data=b"x" * 5000)[:3000]],
}


class Daemon(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def do_GET(self):
        name = urllib.parse.urlparse(self.path).path.split("/")[3]
        self.send_response(200)
        self.send_header("Content-Type", "application/x-tar")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            if name == "endless":
                self.chunk(lying("f", 1 << 40))
                while True:
                    self.chunk(b"x" * 65536)
            if name == "stalled":
                self.chunk(good + lying("half", 100000) + b"x" * 4096)
                threading.Event().wait()
            self.chunk(b"".join(trees[name]) + (b"" if name == "cut" else bytes(1024)))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            pass
        self.close_connection = True

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Daemon)
server.daemon_threads = True
with open(sys.argv[1], "w") as f:
    f.write(str(server.server_address[1]))
server.serve_forever()
