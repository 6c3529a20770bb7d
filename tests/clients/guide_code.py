"""guide_code DOCUMENT LANGUAGE: print all fenced blocks of one language, in order, as one program."""
import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
for block in re.findall(r"^```%s\n(.*?)^```$" % sys.argv[2], text, re.M | re.S):
    print(block)
