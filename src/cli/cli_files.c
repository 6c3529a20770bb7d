/* SPDX-License-Identifier: MIT
 *
 * `doze cat`, `edit`, `files`, `sql`: the files of a daemon's sandbox or of a FILE (cli_spot.c),
 * also while the sandbox sleeps.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "cli/cli_remote.h"
#include "cli/cli_spot.h"
#include "cli/cli_term.h"
#include "cli/local_files.h"
#include "os/os_proc.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* --- cat -------------------------------------------------------------------------------------- */

static int cat(struct dz_cli *c, struct dz_err *err)
{
    struct dz_cli_side s = {.c = c};
    struct dz_cli_spot from;
    uint64_t bytes;
    int rc = 0;
    (void)fflush(c->out);
    for (int i = 0; rc == 0 && i < c->argc; i++) {
        rc = dz_cli_spot_need(c, c->argv[i], &from, err);
        if (rc == 0)
            rc = dz_cli_side_get(&s, &from, STDOUT_FILENO, &bytes, err);
    }
    return dz_cli_side_close(&s, rc, err);
}

const struct dz_cli_command dz_cmd_cat = {
    .name = "cat",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "print files from a sandbox",
    .args = "SANDBOX:PATH | FILE:PATH...",
    .min_args = 1,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTIONS_BELOW, DZ_CLI_OPTION_RAW,
                                              DZ_CLI_OPTION_QUIET, DZ_CLI_OPTION_END},
    .help = "Prints the files one after the other. On a terminal, control characters are\n"
            "escaped; --raw prints them unchanged. The sandbox is not woken.\n" DZ_CLI_FILE_HELP,
    .run = cat,
};

/* --- edit ------------------------------------------------------------------------------------- */

/* Run the editor through a shell, as git and crontab do, because VISUAL and EDITOR may have
 * options. */
static int run_editor(const char *path, struct dz_err *err)
{
    const char *editor = getenv("VISUAL");
    char script[DZ_LINE_MAX];
    editor = editor && editor[0] ? editor : getenv("EDITOR");
    editor = editor && editor[0] ? editor : "vi";
    (void)snprintf(script, sizeof script, "%s \"$1\"", editor);
    const struct dz_os_spawn_opts o = {
        .argv = (const char *const[]){"/bin/sh", "-c", script, editor, path, NULL}};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct dz_os_proc proc = DZ_OS_PROC_NONE;
    struct dz_os_status status = {0};
    (void)sigaction(SIGINT, &ignore, NULL); /* Ctrl-C is for the editor */
    (void)sigaction(SIGQUIT, &ignore, NULL);
    int rc = dz_os_spawn(&o, &proc, err);
    rc = rc < 0 ? rc : dz_os_proc_wait(&proc, -1, &status, err);
    dz_os_proc_close(&proc);
    return rc == 0 && status.exit_code != 0
               ? dz_fail(err, DZ_ECANCELED, "the editor %s failed; the file is unchanged", editor)
               : rc;
}

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Get a copy of the file; a missing file begins empty. Closes a FILE again. */
static int fetch(struct dz_cli_side *s, const struct dz_cli_spot *at, const char *path,
                 struct dz_err *err)
{
    int rc = dz_cli_copy_out(s, at, path, NULL, err);
    bool opened = s->client || s->files;
    if (opened && rc == DZ_ENOENT && strstr(err->msg, "No such file")) {
        int fd = dz_fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL, 0644, err);
        rc = fd < 0 ? fd : 0;
        dz_fd_close(&fd);
    }
    return dz_cli_side_close(s, rc, err);
}

/* *ret_kept: the edited copy could not be stored in the sandbox and is kept. */
static int edit_copy(struct dz_cli_side *s, const struct dz_cli_spot *at, const char *path,
                     bool *ret_kept, struct dz_err *err)
{
    struct stat before, after;
    int rc = fetch(s, at, path, err);
    if (rc == 0 && stat(path, &before) < 0)
        rc = dz_fail_sys(err, errno, "stat %s", path);
    rc = rc < 0 ? rc : run_editor(path, err);
    if (rc == 0 && stat(path, &after) < 0)
        rc = dz_fail_sys(err, errno, "stat %s", path);
    if (rc < 0 || same(&before, &after))
        return rc;
    rc = dz_cli_copy_in(s, path, at, NULL, err);
    rc = dz_cli_side_close(s, rc, err);
    *ret_kept = rc < 0;
    return rc;
}

static int edit(struct dz_cli *c, struct dz_err *err)
{
    struct dz_cli_side s = {.c = c};
    struct dz_cli_spot at;
    struct dz_err why;
    const char *tmp = getenv("TMPDIR");
    char dir[DZ_PATH_MAX / 2], path[DZ_PATH_MAX];
    bool kept = false;
    int rc = dz_cli_spot_need(c, c->argv[0], &at, err);
    if (rc < 0)
        return rc;
    (void)snprintf(dir, sizeof dir, "%s/doze-edit.XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (!mkdtemp(dir))
        return dz_fail_sys(err, errno, "make %s", dir);
    (void)snprintf(path, sizeof path, "%s/%.255s", dir, base_name(at.path));
    rc = edit_copy(&s, &at, path, &kept, &why);
    if (kept)
        return dz_fail(err, rc, "%s; your version is kept in %s", why.msg, path);
    (void)unlink(path);
    (void)rmdir(dir);
    return rc < 0 ? dz_fail(err, rc, "%s", why.msg) : 0;
}

const struct dz_cli_command dz_cmd_edit = {
    .name = "edit",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "edit a file in a sandbox",
    .args = "SANDBOX:PATH | FILE:PATH",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTIONS_BELOW, DZ_CLI_OPTION_QUIET,
                                              DZ_CLI_OPTION_END},
    .help = "Opens a copy with $VISUAL, $EDITOR or vi. If the copy was changed and the\n"
            "editor succeeded, the file is replaced in one step. A file that does not exist\n"
            "is created. The sandbox is not woken. A FILE is in use only while it is read\n"
            "and written, not while the editor runs.\n" DZ_CLI_FILE_HELP,
    .run = edit,
};

/* --- files ------------------------------------------------------------------------------------ */

static const struct dz_cli_shown entry_columns[] = {
    {"NAME", "name", DZ_CLI_SHOW_TEXT},     {"TYPE", "type", DZ_CLI_SHOW_TEXT},
    {"MODE", "mode", DZ_CLI_SHOW_TEXT},     {"SIZE", "size", DZ_CLI_SHOW_SIZE},
    {"CHANGED", "mtime", DZ_CLI_SHOW_TIME}, {"TARGET", "target", DZ_CLI_SHOW_TEXT},
};

static int files(struct dz_cli *c, struct dz_err *err)
{
    char word[DZ_PATH_MAX + DZ_PATH_MAX];
    struct dz_cli_side s = {.c = c};
    struct dz_cli_spot at;
    json_t *items = NULL;
    (void)snprintf(word, sizeof word, "%s%s", c->argv[0], strchr(c->argv[0], ':') ? "" : ":/");
    int rc = dz_cli_spot_need(c, word, &at, err);
    if (rc == 0)
        rc = dz_cli_side_list(&s, &at, dz_cli_value(c, "depth"), &items, err);
    rc = dz_cli_side_close(&s, rc, err);
    if (rc == 0)
        rc = dz_cli_show(c, items, entry_columns, DZ_ARRAY_LEN(entry_columns), err);
    json_decref(items);
    return rc;
}

const struct dz_cli_command dz_cmd_files = {
    .name = "files",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "list files in a sandbox",
    .args = "SANDBOX[:PATH] | FILE[:PATH]",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){{"depth", 0, "N", "show this many levels (default 1)"},
                                       DZ_CLI_OPTIONS_BELOW,
                                       DZ_CLI_OPTION_JSON,
                                       DZ_CLI_OPTION_QUIET,
                                       DZ_CLI_OPTION_END},
    .help = "Without PATH, lists the root directory. The sandbox is not woken. -q prints\n"
            "names only.\n" DZ_CLI_FILE_HELP,
    .run = files,
};

static int files_rm(struct dz_cli *c, struct dz_err *err)
{
    struct dz_cli_side s = {.c = c};
    struct dz_cli_spot at;
    int rc = 0;
    for (int i = 0; rc == 0 && i < c->argc; i++) {
        rc = dz_cli_spot_need(c, c->argv[i], &at, err);
        if (rc == 0)
            rc = dz_cli_side_remove(&s, &at, at.path, dz_cli_flag(c, "recursive"), err);
    }
    return dz_cli_side_close(&s, rc, err);
}

const struct dz_cli_command dz_cmd_files_rm = {
    .name = "files rm",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "remove files from a sandbox",
    .args = "SANDBOX:PATH | FILE:PATH...",
    .min_args = 1,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){{"recursive", 'r', NULL,
                                               "remove directories with everything in them"},
                                              DZ_CLI_OPTIONS_BELOW,
                                              DZ_CLI_OPTION_END},
    .help = "The sandbox is not woken.\n" DZ_CLI_FILE_HELP,
    .run = files_rm,
};

static int files_mkdir(struct dz_cli *c, struct dz_err *err)
{
    struct dz_cli_side s = {.c = c};
    struct dz_cli_spot at;
    int rc = dz_cli_spot_need(c, c->argv[0], &at, err);
    if (rc == 0)
        rc = dz_cli_side_mkdir(&s, &at, at.path, err);
    return dz_cli_side_close(&s, rc, err);
}

const struct dz_cli_command dz_cmd_files_mkdir = {
    .name = "files mkdir",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "make a directory in a sandbox",
    .args = "SANDBOX:PATH | FILE:PATH",
    .min_args = 1,
    .max_args = 1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTIONS_BELOW, DZ_CLI_OPTION_END},
    .help = "Missing parent directories are made too. The sandbox is not woken.\n" DZ_CLI_FILE_HELP,
    .run = files_mkdir,
};

static int files_mv(struct dz_cli *c, struct dz_err *err)
{
    struct dz_cli_side s = {.c = c};
    struct dz_cli_spot at;
    int rc = dz_cli_spot_need(c, c->argv[0], &at, err);
    if (rc == 0)
        rc = dz_cli_side_move(&s, &at, c->argv[1], err);
    return dz_cli_side_close(&s, rc, err);
}

const struct dz_cli_command dz_cmd_files_mv = {
    .name = "files mv",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "move a file within a sandbox",
    .args = "SANDBOX:PATH | FILE:PATH NEWPATH",
    .min_args = 2,
    .max_args = 2,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTIONS_BELOW, DZ_CLI_OPTION_END},
    .help = "A file at NEWPATH is replaced. The sandbox is not woken.\n" DZ_CLI_FILE_HELP,
    .run = files_mv,
};

/* --- sql -------------------------------------------------------------------------------------- */

static int print_rows(struct dz_cli *c, const json_t *answer)
{
    size_t i, k;
    json_t *row, *v, *name;
    DZ_AUTO(dz_buf_release) struct dz_buf head = DZ_BUF_INIT(DZ_CLIENT_BODY_MAX);
    json_array_foreach(json_object_get(answer, "columns"), k, name)
    {
        dz_buf_adds(&head, k ? "\t" : "");
        dz_cli_escape(&head, dz_str(json_string_value(name) ? json_string_value(name) : ""));
    }
    if (json_array_size(json_object_get(answer, "columns")) > 0)
        fprintf(c->out, "%s\n", head.p);
    json_array_foreach(json_object_get(answer, "rows"), i, row)
    {
        DZ_AUTO(dz_buf_release) struct dz_buf line = DZ_BUF_INIT(DZ_CLIENT_BODY_MAX);
        json_array_foreach(row, k, v)
        {
            char *text = json_is_string(v) ? NULL : json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
            dz_buf_adds(&line, k ? "\t" : "");
            dz_cli_escape(&line, dz_str(json_is_string(v) ? json_string_value(v)
                                        : json_is_null(v) ? ""
                                                          : text));
            free(text); /* jansson's */
        }
        fprintf(c->out, "%s\n", line.p);
    }
    if (json_is_true(json_object_get(answer, "truncated")))
        dz_cli_warn(c, "only the first rows are shown: the answer reached its limit");
    return DZ_EXIT_OK;
}

static int sql_file(struct dz_cli *c, json_t **ret_answer, struct dz_err *err)
{
    struct dz_files *f = NULL;
    int rc = dz_files_open(c, c->argv[0], DZ_FILES_LOOK, &f, err);
    if (rc == 0)
        rc = dz_files_sql(f, c->argv[1], ret_answer, err);
    return dz_files_close(f, rc, err);
}

static int sql(struct dz_cli *c, struct dz_err *err)
{
    json_t *answer = NULL;
    bool file = dz_cli_is_file(c->argv[0]);
    if (!file && (dz_cli_value(c, "image") || dz_cli_value(c, "base")))
        return dz_cli_usage(c, err, "%s: --image and --base are for a FILE", c->argv[0]);
    int rc = file ? sql_file(c, &answer, err)
                  : dz_cli_ask(c, "POST", json_pack("{s:s}", "query", c->argv[1]), &answer, err,
                               "/v1/sandboxes/{}/sql", c->argv[0]);
    if (rc < 0)
        return rc;
    if (c->json)
        return dz_cli_show_one(c, answer, NULL, err);
    rc = print_rows(c, answer);
    json_decref(answer);
    return rc;
}

const struct dz_cli_command dz_cmd_sql = {
    .name = "sql",
    .group = DZ_CLI_GROUP_SANDBOX,
    .summary = "query a sandbox's files with SQL",
    .args = "SANDBOX | FILE QUERY",
    .min_args = 2,
    .max_args = 2,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTIONS_BELOW, DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help =
        "Runs one SELECT over the view vfs (volume, path, content, mtime) and the file's\n"
        "own tables. Nothing can be changed, and the sandbox is not woken. Columns are\n"
        "separated by tabs.\n"
        "\n"
        "    doze sql web \"select path, mtime from vfs where path like '%.py'\"\n" DZ_CLI_FILE_HELP,
    .run = sql,
};
