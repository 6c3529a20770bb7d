"""guide_answer ANSWER OUTPUT: is what a document says that its commands print (N.answer of
guide_blocks.py) what they printed? Prints each difference; exits with 1 if there is one.

text: each line must be a line of the output. In both, ids and numbers are masked.
json: one JSON value and, if the last line is a number of three digits, the HTTP status. The output
must have the same members with the same values. Values that differ from run to run (ids, times,
sizes, durations, paths) need only be of the same kind.

In an answer, "..." in a list or object stands for further members, as a line of its own in a text
for further lines, and at the end of a line for its rest. "\u2026" in a string stands for any text.
"""
import json
import re
import sys

ELLIPSIS = "\u2026"
VOLATILE = re.compile(r"(_ms|_bytes|_at|_until)$|^(ms|at|pid|bytes|cpu_ms|updated|count|uptime_ms|"
                      r"connections|requests|generation|next_cursor|open_files|id|mtime|sha256|"
                      r"warm|creates|wakes|wakes_cold|suspends|execs|sandboxes|warm_sandboxes|"
                      r"vfs_path|image_id|members|version)$")
ID = re.compile(r"\b(sbx|exe|snap|frk|ref|req|bld|tok|img)_[0-9a-z]+")


def parse(text):
    """The JSON of an answer, with ... as the member MORE."""
    text = re.sub(r"\{\s*\.\.\.\s*\}", '{"MORE": 0}', text)
    text = re.sub(r",\s*\.\.\.\s*\}", ', "MORE": 0}', text)
    text = re.sub(r"(,|\[)\s*\.\.\.\s*\]", r'\1 "MORE"]', text)
    return json.loads(text)


def compare(said, got, where, key=""):
    """Yield a sentence for each difference."""
    if isinstance(said, dict) and isinstance(got, dict):
        more = "MORE" in said
        for k in said:
            if k != "MORE" and k not in got:
                yield f"{where}: no member {k}"
            elif k != "MORE":
                yield from compare(said[k], got[k], f"{where}.{k}", k)
        for k in got:
            if k not in said and not more:
                yield f"{where}: the answer also has {k}"
    elif isinstance(said, list) and isinstance(got, list):
        more = said[-1:] == ["MORE"]
        said = said[:-1] if more else said
        if len(got) < len(said) or (len(got) > len(said) and not more):
            yield f"{where}: {len(got)} elements, not {len(said)}"
        for i, (a, b) in enumerate(zip(said, got)):
            yield from compare(a, b, f"{where}[{i}]", key)
    elif isinstance(said, str) and isinstance(got, str) and ELLIPSIS in said:
        if not re.fullmatch(".*".join(re.escape(p) for p in said.split(ELLIPSIS)), got, re.S):
            yield f"{where}: {got!r}, not {said!r}"
    elif isinstance(said, bool) or said is None or isinstance(said, (dict, list)):
        if said != got or isinstance(got, bool) != isinstance(said, bool):
            yield f"{where}: {got!r}, not {said!r}"
    elif isinstance(said, str) != isinstance(got, str) or got is None or isinstance(got, bool):
        yield f"{where}: {got!r} is of another kind than {said!r}"
    elif isinstance(said, str) and ID.match(said):
        if said.split("_")[0] != str(got).split("_")[0]:
            yield f"{where}: {got!r}, not {said!r}"
    elif said != got and not VOLATILE.search(key):
        yield f"{where}: {got!r}, not {said!r}"


def mask(line):
    """A line without what differs from run to run."""
    return re.sub(r"[0-9]+", "N", ID.sub(r"\1_ID", line.strip()))


def texts(said, got):
    """The same for lines of text."""
    lines = [mask(line) for line in got]
    for line in said:
        line = mask(line)
        if line.endswith("...") and line != "...":
            if not any(g.startswith(line[:-3]) for g in lines):
                yield f"no line begins with {line[:-3]!r}"
        elif line and line != "..." and line not in lines:
            yield f"no line {line!r}"


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        kind, *said = f.read().rstrip("\n").split("\n")
    with open(sys.argv[2], encoding="utf-8") as f:
        got = [line for line in f.read().split("\n") if line.strip()]
    bad = []
    if kind == "text":
        bad = list(texts(said, got))
    else:
        if re.fullmatch("[0-9]{3}", said[-1]):
            status = said.pop()
            if not got or got[-1] != status:
                bad.append(f"the status is {got[-1:]}, not {status}")
        if said:
            found = [json.loads(line) for line in got if line.startswith(("{", "["))]
            bad += compare(parse("\n".join(said)), found[-1], "answer") if found else ["no JSON"]
    print("\n".join(bad))
    sys.exit(1 if bad else 0)


main()
