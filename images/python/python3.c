/* SPDX-License-Identifier: MIT
 *
 * python3: what users of the image `python` call. CPython itself is a module that
 * was built to be embedded: it knows WASI only, is isolated from its environment,
 * and reads few options. So this program reads the options as CPython would,
 * and starts it with a few lines of Python in front that enter the working
 * directory, set sys.path and run the rest.
 */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INTERPRETER "/usr/local/lib/python3.15/python.wasm"

/* argv: -c, working directory, what sys.path begins with, flags, then what is run. */
static const char prelude[] =
    "import linecache as l,os,sys,_reactor\n"
    "l._interactive_cache.clear()\n"
    "d,p,f=sys.argv[1:4]\n"
    "try:os.chdir(d)\n"
    "except OSError:pass\n"
    "sys.executable='/usr/bin/python3'\n"
    "if 'S' not in f:\n"
    " import sitecustomize\n" /* the image's: before sys.path has anything else */
    "if 'E' not in f:\n"
    " sys.path[:0]=[x for x in os.environ.get('PYTHONPATH','').split(':') if x]\n"
    "if 'P' not in f:\n"
    " sys.path.insert(0,p and os.path.dirname(os.path.abspath(p)))\n"
    "if 'S' not in f:\n"
    " sys.path.append('/usr/local/lib/python3.15/site-packages')\n"
    "sys.exit(_reactor.run(['python3',*sys.argv[4:]],dict(os.environ)))\n";

struct options {
    char flags[8]; /* E: no variables; P: nothing in front of sys.path; S: no site */
    bool interactive, quiet, unbuffered;
    const char *command, *module; /* -c, -m */
};

static void add_flag(struct options *o, char c)
{
    size_t n = strlen(o->flags);
    if (!strchr(o->flags, c) && n + 1 < sizeof o->flags)
        o->flags[n] = c;
}

static int usage(int status)
{
    fputs("usage: python3 [-BEIPSiqu] [-c COMMAND | -m MODULE | FILE | -] [ARG...]\n"
          "-b, -d, -O, -s, -v, -x, -W and -X are accepted and change nothing.\n",
          status ? stderr : stdout);
    return status;
}

/* The letters of one word; *at: the next word. 0, or a status + 1 to end with. */
static int read_letters(struct options *o, const char *letters, char **argv, int *at)
{
    for (const char *p = letters; *p; p++) {
        const char *rest = p[1] ? p + 1 : argv[*at];
        if (strchr("cmWX", *p)) {
            if (!rest) {
                fprintf(stderr, "Argument expected for the -%c option\n", *p);
                return usage(2) + 1;
            }
            *at += p[1] == '\0';
            if (*p == 'c')
                o->command = rest;
            if (*p == 'm')
                o->module = rest;
            return 0;
        }
        if (*p == 'I') {
            add_flag(o, 'E');
            add_flag(o, 'P');
        }
        if (strchr("EPS", *p))
            add_flag(o, *p);
        o->interactive = o->interactive || *p == 'i';
        o->quiet = o->quiet || *p == 'q';
        o->unbuffered = o->unbuffered || *p == 'u';
        if (*p == 'h' || *p == '?')
            return usage(0) + 1;
        if (!strchr("BEIOPSVbdiqsuvx", *p)) {
            fprintf(stderr, "unknown option -%c\n", *p);
            return usage(2) + 1;
        }
    }
    return 0;
}

/* Options up to what is run; *at: the first word behind them. */
static int read_options(struct options *o, char **argv, int *at)
{
    while (argv[*at] && argv[*at][0] == '-' && argv[*at][1] && !o->command && !o->module) {
        const char *word = argv[(*at)++];
        if (strcmp(word, "--help") == 0)
            return usage(0) + 1;
        if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
            puts("Python 3.15.0");
            return 1;
        }
        int end = read_letters(o, word + 1, argv, at);
        if (end)
            return end;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = {0};
    char cwd[PATH_MAX];
    int at = 1, n = 0;
    int end = read_options(&o, argv, &at);
    const char **to = calloc((size_t)argc + 16, sizeof *to);
    if (end)
        return end - 1;
    if (!to || !getcwd(cwd, sizeof cwd))
        cwd[0] = '\0';
    const char *script = o.command || o.module ? NULL : argv[at];
    bool named = script && strcmp(script, "-") != 0;
    const char *const front[] = {"python3", "-c", prelude, cwd, named ? script : "", o.flags};
    if (!to)
        return 1;
    for (size_t i = 0; i < sizeof front / sizeof *front; i++)
        to[n++] = front[i];
    if (o.unbuffered)
        to[n++] = "-u";
    if (o.command || o.module) {
        to[n++] = o.command ? "-c" : "-m";
        to[n++] = o.command ? o.command : o.module;
    } else if (!script && (o.interactive || isatty(0))) {
        to[n++] = "-m";
        to[n++] = "code";
        if (o.quiet)
            to[n++] = "-q";
    } else if (o.interactive) {
        fputs("python3: -i is for a prompt alone: give neither a command nor a file\n", stderr);
        return 2;
    }
    while (argv[at])
        to[n++] = argv[at++];
    (void)setenv("TMPDIR", "/tmp", 0);
    (void)setenv("PYTHONTZPATH", "", 0);
    execv(INTERPRETER, (char *const *)to);
    fprintf(stderr, "python3: cannot start %s: %s\n", INTERPRETER, strerror(errno));
    return 127;
}
