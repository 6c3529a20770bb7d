/* SPDX-License-Identifier: MIT
 *
 * cli.h - what a command of `doze` is, and what it may use.
 *
 * A command is one row: a constant `struct dz_cli_command` named
 * dz_cmd_<name with _ for spaces>, beside its function in a file of its own,
 * and one line in cli_commands.h. Parsing, help, completion and the check of
 * the documents all read that row; there is nothing else to register.
 *
 *     static int run(struct dz_cli *c, struct dz_err *err)
 *     {
 *         if (dz_cli_flag(c, "json")) ...
 *         fprintf(c->out, "%s\n", c->argv[0]);
 *         return 0;
 *     }
 *     const struct dz_cli_command dz_cmd_disk_ls = {.name = "disk ls", ... .run = run};
 *
 * Commands never exit and never print errors: they return. One process runs
 * one command at a time (getopt_long keeps its state in globals).
 */
#ifndef DZ_CLI_CLI_H
#define DZ_CLI_CLI_H

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses. Those from 125 on are for commands that run something inside
 * a sandbox or a module and otherwise pass its own status on. */
enum dz_cli_exit {
    DZ_EXIT_OK = 0,
    DZ_EXIT_FAILURE = 1,
    DZ_EXIT_USAGE = 2,
    DZ_EXIT_ASLEEP = 75,      /* the sandbox was suspended and can be resumed */
    DZ_EXIT_TIMED_OUT = 124,  /* it exceeded its time limit */
    DZ_EXIT_RUN_FAILED = 125, /* doze itself failed before or after the run */
    DZ_EXIT_NOT_EXECUTABLE = 126,
    DZ_EXIT_NOT_FOUND = 127,
    DZ_EXIT_SIGNAL = 128, /* plus the number of the signal or trap */
};

/* X(name, heading in `doze help`), in the order of the list. */
#define DZ_CLI_GROUPS(X)                   \
    X(SANDBOX, "Sandboxes")                \
    X(RUN, "Sandboxes: no daemon")         \
    X(IMAGE, "Images")                     \
    X(DISK, "Disks: a file, no daemon")    \
    X(REPLICA, "Replicas: no daemon")      \
    X(REGISTRY, "The registry: no daemon") \
    X(WASM, "WebAssembly modules")         \
    X(HOST, "This machine and doze itself")

enum dz_cli_group {
#define X(name, heading) DZ_CLI_GROUP_##name,
    DZ_CLI_GROUPS(X)
#undef X
};

/* One option. Every command also has -h, --help. */
struct dz_cli_option {
    const char *name; /* long name without the dashes */
    char letter;      /* one-letter name, or 0 */
    const char *arg; /* the name of its argument in the help; NULL: it takes none; "[=NAME]": it may
                        have one, as --name=VALUE, and has no letter */
    const char *help; /* one line, a verb first, no full stop */
};
static inline bool dz_cli_may_lack_argument(const struct dz_cli_option *o)
{
    return o->arg && o->arg[0] == '[';
}

#define DZ_CLI_OPTION_JSON  {"json", 0, NULL, "print the result as JSON"}
#define DZ_CLI_OPTION_QUIET {"quiet", 'q', NULL, "print only what a script needs"}
#define DZ_CLI_OPTION_RAW   {"raw", 0, NULL, "do not escape control characters on a terminal"}
#define DZ_CLI_OPTION_END   {NULL, 0, NULL, NULL}

/* Options end at `--` or at the first word of the command to run: the words from there on are
 * passed on unread. `lead` operands come before that command, and options may stand around them. */
#define DZ_CLI_REST 1u

struct dz_cli;

struct dz_cli_command {
    const char *name; /* words with one space between: "doctor", "disk ls" */
    enum dz_cli_group group;
    const char *summary; /* one line, a verb first, no full stop */
    const char *args;    /* operands as the usage line shows them: "FILE [PATH...]", or "" */
    int min_args;        /* fewest and most operands; max_args < 0: any number */
    int max_args;
    unsigned flags;                      /* DZ_CLI_REST or 0 */
    int lead;                            /* with DZ_CLI_REST: operands before the command to run */
    const char *const *instead_of_lead;  /* options that replace these operands; NULL: none */
    const struct dz_cli_option *options; /* up to DZ_CLI_OPTION_END; NULL: none */
    const char *words; /* the words that completion offers as the first operand; NULL: file names */
    const char *help;  /* paragraphs, lines of at most 78 columns */

    /* An exit status (0 and up), or a negative DZ_E* with *err filled: the
     * caller prints "doze: <sentence>" and exits 1, or 2 after dz_cli_usage. */
    int (*run)(struct dz_cli *c, struct dz_err *err);
    /* Not NULL: called instead of run; it runs `run` in a jailed process. */
    int (*jail)(struct dz_cli *c, struct dz_err *err);
};

struct dz_cli_progress;
enum dz_cli_progress_step {
    DZ_CLI_PROGRESS_START,
    DZ_CLI_PROGRESS_AT,
    DZ_CLI_PROGRESS_END,
};

/* What a command is run with: streams, options, arguments. Commands may read all fields. */
struct dz_cli {
    FILE *out; /* results */
    FILE *err; /* errors, notes, progress */
    const struct dz_cli_command *command;
    int argc; /* operands: argv[0] is the first one; argv[argc] is NULL */
    char **argv;
    bool quiet;     /* -q was given (and the command has it) */
    bool json;      /* --json was given (and the command has it) */
    bool out_color; /* may results be coloured? */
    bool err_color;
    bool err_live;    /* is err a terminal that can redraw a line? */
    bool out_tty;     /* is out a terminal? (JSON is indented then) */
    size_t width;     /* columns of the terminal, 80 if there is none */
    int usage_status; /* the exit status of an error: DZ_EXIT_USAGE after dz_cli_usage(); 0:
                         DZ_EXIT_FAILURE */
    struct dz_cli_given *given; /* options in the order given */
    int given_count;
    /* Draws in place of cli_progress, in a process that has no terminal; else NULL. */
    void (*progress)(const struct dz_cli_progress *p, enum dz_cli_progress_step step,
                     uint64_t done);
};

/* Run one command line: argv[0] is ignored, argv[argc] must be NULL, and the
 * words may be reordered. Returns the exit status, which counts a failure to
 * write to out. The streams stay open and belong to the caller. */
int dz_cli_main(int argc, char **argv, FILE *out, FILE *err);

/* Options of the running command. Asking for one that its row does not have is
 * a bug and aborts. */
bool dz_cli_flag(const struct dz_cli *c, const char *name);
const char *dz_cli_value(const struct dz_cli *c,
                         const char *name); /* the last one, NULL: not given */
const char *dz_cli_value_at(const struct dz_cli *c, const char *name,
                            int n); /* the nth one, NULL: no more */

/* `return dz_cli_usage(c, err, "...")`: the command line is wrong; exit 2. */
DZ_COLD DZ_PRINTF(3, 4) int dz_cli_usage(struct dz_cli *c, struct dz_err *err, const char *fmt,
                                         ...);

/* Print a JSON text on out, with a newline. Takes the result of dz_json_finish; a failure becomes
 * the error of the command. */
DZ_NODISCARD int dz_cli_print_json(struct dz_cli *c, const struct dz_buf *text, int rc,
                                   struct dz_err *err);

/* A line "doze: ..." on err: a warning always, a note unless -q. */
DZ_PRINTF(2, 3) void dz_cli_warn(struct dz_cli *c, const char *fmt, ...);
DZ_PRINTF(2, 3) void dz_cli_note(struct dz_cli *c, const char *fmt, ...);

#endif
