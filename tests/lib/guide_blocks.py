"""guide_blocks DOCUMENT DIRECTORY: the command blocks of a document as files, and a list of them.

A command block is fenced without a language or as sh, or indented, and its first line begins with a
command. In DIRECTORY: N.sh is block N; `list` has a line for each:

    run    N  LINE
    skip   N  LINE  REASON

N.before has commands that the reader is assumed to have done, N.shows a line for each text that the
output must contain. All come from comments before the block:

    <!-- guide: skip: needs systemd -->      not run here, for this reason
    <!-- guide: synopsis -->                 not commands: a summary of how they are called
    <!-- guide: before: echo a >data.csv --> done first, not shown to the reader
    <!-- guide: shows: 42 -->                part of the output
    <!-- guide: terminal -->                 its input stays open and silent, as at a terminal

A block fenced as json or text right behind a command block is what the commands print: N.answer has
its text, and its first line is the fence's language. guide_answer.py compares it with the output.
"""
import re
import sys

COMMANDS = tuple(word + " " for word in ("doze make export curl printf echo for sqlite3 sudo systemctl "
                                          "apt-get zstd cp mkdir cat api").split()) + ("exe=", "frk=", "bld=", "DOZE_")


def answer(lines, at):
    """The language and the lines of a block json or text that follows at `at`; [] if there is none."""
    while at < len(lines) and not lines[at].strip():
        at += 1
    fence = re.match(r"```(json|text)$", lines[at]) if at < len(lines) else None
    if not fence:
        return []
    end = next(k for k in range(at + 1, len(lines)) if lines[k].startswith("```"))
    return [fence.group(1)] + lines[at + 1:end]


def blocks(lines):
    """Yield (line number, lines, lines of the answer) of each block that may hold commands."""
    i = 0
    while i < len(lines):
        fence = re.match(r"```(\w*)\s*$", lines[i])
        if fence:
            end = next(k for k in range(i + 1, len(lines)) if lines[k].startswith("```"))
            if fence.group(1) in ("", "sh"):
                yield i, lines[i + 1:end], answer(lines, end + 1)
            i = end + 1
        elif lines[i].startswith("    ") and (i == 0 or not lines[i - 1].strip()):
            end = i
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            yield i, [line[4:] for line in lines[i:end]], []
            i = end
        else:
            i += 1


def markers(lines, at):
    """The guide comments right before the line `at`, the first one first."""
    found = []
    for k in range(at - 1, -1, -1):
        marker = re.match(r"<!-- guide: (\w+)(?:: (.*))? -->$", lines[k])
        if marker:
            found.insert(0, (marker.group(1), marker.group(2) or ""))
        elif lines[k].strip():
            break
    return found


def main():
    document, directory = sys.argv[1:]
    with open(document, encoding="utf-8") as f:
        lines = f.read().split("\n")
    listing, n = [], 0
    for at, text, printed in blocks(lines):
        first = next((line for line in text if line.strip() and not line.startswith("#")), "")
        marks = markers(lines, at)
        if not first.startswith(COMMANDS) or ("synopsis", "") in marks:
            continue
        n += 1
        reasons = [value for key, value in marks if key == "skip"]
        listing.append(f"skip\t{n}\t{at + 1}\t{reasons[0]}" if reasons else f"run\t{n}\t{at + 1}")
        for key, value in marks:
            if key not in ("skip", "synopsis", "before", "shows", "terminal"):
                sys.exit(f"{document}:{at + 1}: no such marker: {key}")
        for name, content in (("sh", text), ("answer", printed), ("before", [v for k, v in marks if k == "before"]),
                              ("terminal", ["yes" for k, _ in marks if k == "terminal"]),
                              ("shows", [v for k, v in marks if k == "shows"])):
            with open(f"{directory}/{n}.{name}", "w", encoding="utf-8") as f:
                f.write("\n".join(content) + "\n" if content else "")
    with open(f"{directory}/list", "w", encoding="utf-8") as f:
        f.write("".join(line + "\n" for line in listing))


main()
