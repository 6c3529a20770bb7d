"""option_use DOZE FILE...: options of the command line that none of the test files uses.

Reads the table of commands and options from `doze completion bash`, the one-letter names from each
command's help, and looks in the files for `doze COMMAND ... --option`. Prints a line COMMAND --option
for each option that no line of the files uses. --help, --json and --quiet are common to all commands
and are named once for all: they count as used when any line uses them with the command or anywhere.
"""
import re
import subprocess
import sys

EVERYWHERE = {"help", "json", "quiet"}


def options(doze):
    """COMMAND -> {option: letter or None}"""
    script = subprocess.run([doze, "completion", "bash"], check=True, capture_output=True, text=True).stdout
    table = {}
    for name, words in re.findall(r"^    '([^']+)' \| '[^']*'\*\) echo '([^']*)'", script, re.M):
        text = subprocess.run([doze, "help"] + name.split(), check=True, capture_output=True, text=True).stdout
        letters = dict((long, letter) for letter, long in re.findall(r"^  -(\w), --([\w-]+)", text, re.M))
        table[name] = {word[2:].rstrip("="): letters.get(word[2:].rstrip("=")) for word in words.split()}
    return table


def uses(name, letters, text):
    """The options with which the text calls the command."""
    found = set()
    call = r"\bdoze(?:\s+(?:-q|--quiet|--json))*\s+" + r"\s+".join(name.split()) + r"(?![\w-])((?:\\\n|[^\n;|&])*)"
    for rest in re.findall(call, text):
        found |= set(re.findall(r"(?<![\w-])--([\w-]+)", rest))
        for cluster in re.findall(r"(?<![\w-])-([A-Za-z]+)", rest):
            found |= {long for long, letter in letters.items() if letter and letter in cluster}
    return found


def main():
    doze, files = sys.argv[1], sys.argv[2:]
    text = "\n".join(open(f, encoding="utf-8").read() for f in files)
    table = options(doze)
    if len(table) < 50:
        sys.exit("option_use: the table of commands was not understood")
    for name, letters in table.items():
        used = uses(name, letters, text)
        for option in letters:
            if option not in EVERYWHERE and option not in used:
                print(f"{name} --{option}")
    print(f"{sum(len(o) for o in table.values())} options of {len(table)} commands", file=sys.stderr)


main()
