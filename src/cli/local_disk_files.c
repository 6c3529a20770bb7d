/* SPDX-License-Identifier: MIT
 *
 * `doze disk ls`, `cat`, `mkdir`, `mv`, `rm`, `du`, `df`: the operations of `doze files` and the
 * API, on a disk's file. A file-only cell does them (local_files.c).
 */
#include "base/limits.h"
#include "base/str.h"
#include "cell/cell_op_json.h"
#include "cli/cli_remote.h"
#include "cli/cli_term.h"
#include "cli/local_disk.h"
#include "cli/local_files.h"
#include "cli/local_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    TEXT_MAX = 1 << 20, /* one line or one JSON object */
};

int dz_disk_path(const char *path, char ret[static DZ_PATH_MAX], struct dz_err *err)
{
    int n = snprintf(ret, DZ_PATH_MAX, "%s%s", path[0] == '/' ? "" : "/", path);
    return n < DZ_PATH_MAX ? 0 : dz_fail(err, DZ_ELIMIT, "the path %s is too long", path);
}

/* --- ls -------------------------------------------------------------------------------------- */

static char type_letter(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:
        return 'd';
    case S_IFLNK:
        return 'l';
    case S_IFCHR:
        return 'c';
    case S_IFBLK:
        return 'b';
    case S_IFIFO:
        return 'p';
    case S_IFSOCK:
        return 's';
    default:
        return '-';
    }
}

static void put_mode(uint32_t mode, char out[static 11])
{
    static const char bits[] = "rwxrwxrwx";
    out[0] = type_letter(mode);
    for (int i = 0; i < 9; i++)
        out[i + 1] = mode & (0400u >> i) ? bits[i] : '-';
    if (mode & S_ISUID)
        out[3] = mode & 0100 ? 's' : 'S';
    if (mode & S_ISGID)
        out[6] = mode & 010 ? 's' : 'S';
    if (mode & S_ISVTX)
        out[9] = mode & 1 ? 't' : 'T';
    out[10] = '\0';
}

static void put_time(int64_t ns, char out[static 32])
{
    struct tm tm;
    time_t s = (time_t)(ns / 1000000000 - (ns % 1000000000 < 0));
    if (!gmtime_r(&s, &tm) || strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        (void)snprintf(out, 32, "%" PRId64, (int64_t)s);
}

struct listing {
    struct dz_cli *c;
    bool detail;
    bool first;        /* no JSON object was printed yet */
    const char *above; /* the directory that is put before the listed names */
    struct dz_cell_stat top;
    struct dz_buf text, path;
};

static int print_json(struct listing *l, const struct dz_cell_stat *st, struct dz_err *err)
{
    struct dz_json j;
    dz_json_init(&j, &l->text, false);
    dz_cell_json_entry(&j, st);
    int rc = dz_json_finish(&j);
    if (rc < 0)
        return dz_fail(err, rc, "list a disk: %s", dz_err_text(rc));
    fprintf(l->c->out, "%s%s", l->first ? "[" : ",", l->text.p);
    l->first = false;
    return 0;
}

/* Print one entry, under the path by which it was requested or found. */
static int print_entry(void *arg, const struct dz_cell_stat *found, struct dz_err *err)
{
    struct listing *l = arg;
    struct dz_cell_stat st = *found;
    char mode[11], when[32];
    dz_buf_reset(&l->text);
    dz_buf_reset(&l->path);
    dz_buf_adds(&l->path, l->above);
    dz_buf_adds(&l->path, found->path);
    st.path = l->path.p;
    if (l->c->json && !l->path.err)
        return print_json(l, &st, err);
    dz_cli_escape(&l->text, dz_str_n(l->path.p, l->path.len));
    if (l->detail && S_ISLNK(st.mode)) {
        dz_buf_adds(&l->text, " -> ");
        dz_cli_escape(&l->text, dz_str(st.target));
    }
    if (l->text.err || l->path.err)
        return dz_fail(err, DZ_ENOMEM, "list a disk: out of memory");
    if (l->detail) {
        put_mode(st.mode, mode);
        put_time(st.mtime_ns, when);
        fprintf(l->c->out, "%s %3u %5u %5u %12" PRIu64 " %s ", mode, st.nlink, st.uid, st.gid,
                st.size, when);
    }
    fprintf(l->c->out, "%s\n", l->text.p);
    return 0;
}

static int keep_top(void *arg, const struct dz_cell_stat *st, struct dz_err *err)
{
    struct listing *l = arg;
    (void)err;
    l->top = *st;
    return S_ISDIR(st->mode) ? 0 : print_entry(l, st, err);
}

static int list_path(struct listing *l, struct dz_files *f, const char *path, bool named,
                     struct dz_err *err)
{
    char whole[DZ_PATH_MAX], above[DZ_PATH_MAX + 1] = "";
    uint64_t more = 0;
    bool deep = dz_cli_flag(l->c, "recursive");
    int rc = dz_disk_path(path, whole, err);
    if (rc < 0)
        return rc;
    l->above = "";
    const struct dz_cell_op look = {
        .type = DZ_CELL_OP_STAT, .path = whole, .flags = DZ_CELL_OP_DEEP};
    const struct dz_cell_op list = {.type = DZ_CELL_OP_LIST,
                                    .path = whole,
                                    .depth = deep ? UINT32_MAX : 1,
                                    .limit = UINT64_MAX};
    rc = dz_files_do(f, &look, keep_top, l, NULL, err);
    if (rc < 0 || !S_ISDIR(l->top.mode))
        return rc;
    if (named || deep)
        (void)snprintf(above, sizeof above, "%s%s", path,
                       dz_str_ends(dz_str(path), DZ_STR("/")) ? "" : "/");
    l->above = above;
    rc = dz_files_do(f, &list, print_entry, l, &more, err);
    if (rc == 0 && more)
        dz_cli_warn(l->c, "%s: only the first entries are shown: the list reached its limit", path);
    return rc;
}

static int ls(struct dz_cli *c, struct dz_err *err)
{
    struct listing l = {.c = c,
                        .detail = dz_cli_flag(c, "long"),
                        .first = true,
                        .text = DZ_BUF_INIT(TEXT_MAX),
                        .path = DZ_BUF_INIT(TEXT_MAX)};
    struct dz_files *f = NULL;
    int rc = dz_files_open_disk(c, DZ_FILES_LOOK, &f, err);
    if (rc == 0 && c->argc == 1)
        rc = list_path(&l, f, "/", false, err);
    for (int i = 1; rc == 0 && i < c->argc; i++)
        rc = list_path(&l, f, c->argv[i], c->argc > 2, err);
    if (rc == 0 && c->json)
        fprintf(c->out, "%s", l.first ? "[]\n" : "]\n");
    dz_buf_release(&l.text);
    dz_buf_release(&l.path);
    return dz_files_close(f, rc, err);
}

const struct dz_cli_command dz_cmd_disk_ls = {
    .name = "disk ls",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "list files of a disk",
    .args = "FILE [PATH...]",
    .min_args = 1,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){{"long", 'l', NULL,
                                               "show mode, links, owner, size and time"},
                                              {"recursive", 'R', NULL, "list everything below"},
                                              DZ_CLI_OPTION_IMAGE,
                                              DZ_CLI_OPTION_JSON,
                                              DZ_CLI_OPTION_END},
    .help = "A relative PATH starts at /. Without PATH, lists /. Names are in byte order;\n"
            "the content of a directory follows it. With several paths or -R, names are\n"
            "shown with their directory.\n",
    .run = ls,
};

/* --- cat ------------------------------------------------------------------------------------- */

static int cat_one(struct dz_cli *c, struct dz_files *f, const char *path, struct dz_err *err)
{
    char whole[DZ_PATH_MAX], piece[DZ_IO_PIECE];
    ssize_t n;
    int rc = dz_disk_path(path, whole, err);
    if (rc == 0)
        rc = dz_files_begin_get(f, whole, err);
    while (rc == 0 && (n = dz_files_read(f, piece, sizeof piece, err)) != 0)
        rc = n < 0 ? (int)n : dz_cli_put_guest(c, STDOUT_FILENO, dz_str_n(piece, (size_t)n), err);
    return rc;
}

static int cat(struct dz_cli *c, struct dz_err *err)
{
    struct dz_files *f = NULL;
    int rc = dz_files_open_disk(c, DZ_FILES_LOOK, &f, err);
    (void)fflush(c->out);
    for (int i = 1; rc == 0 && i < c->argc; i++)
        rc = cat_one(c, f, c->argv[i], err);
    return dz_files_close(f, rc, err);
}

const struct dz_cli_command dz_cmd_disk_cat = {
    .name = "disk cat",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "print files from a disk",
    .args = "FILE PATH...",
    .min_args = 2,
    .max_args = -1,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_RAW, DZ_CLI_OPTION_END},
    .help = "Writes the files one after the other to standard output. On a terminal, control\n"
            "characters are escaped; --raw writes them unchanged.\n",
    .run = cat,
};

/* --- mkdir ----------------------------------------------------------------------------------- */

/* Run an operation on each path from the second operand on. Paths that were handled before an error
 * stay changed. ignore: an error code that counts as success. */
static int for_each(struct dz_cli *c, const struct dz_cell_op *op, int ignore, struct dz_err *err)
{
    struct dz_files *f = NULL;
    char whole[DZ_PATH_MAX];
    int rc = dz_files_open_disk(c, DZ_FILES_CHANGE, &f, err);
    for (int i = 1; rc == 0 && i < c->argc; i++) {
        struct dz_cell_op one = *op;
        one.path = whole;
        rc = dz_disk_path(c->argv[i], whole, err);
        if (rc == 0)
            rc = dz_files_do(f, &one, NULL, NULL, NULL, err);
        rc = rc == ignore ? 0 : rc;
    }
    return dz_files_close(f, rc, err);
}

static int mkdir_run(struct dz_cli *c, struct dz_err *err)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_MKDIR,
                                  .flags = dz_cli_flag(c, "parents") ? DZ_CELL_OP_PARENTS : 0};
    return for_each(c, &op, 0, err);
}

const struct dz_cli_command dz_cmd_disk_mkdir = {
    .name = "disk mkdir",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "make directories in a disk",
    .args = "FILE PATH...",
    .min_args = 2,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){{"parents", 'p', NULL,
                                               "make missing parent directories too"},
                                              DZ_CLI_OPTION_IMAGE,
                                              DZ_CLI_OPTION_END},
    .help = "New directories belong to root and have mode 0755. With -p, existing ones are\n"
            "accepted.\n",
    .run = mkdir_run,
};

/* --- mv -------------------------------------------------------------------------------------- */

static int note_directory(void *arg, const struct dz_cell_stat *st, struct dz_err *err)
{
    (void)err;
    *(bool *)arg = S_ISDIR(st->mode);
    return 0;
}

static int move(struct dz_files *f, const char *from, const char *to, bool into, struct dz_err *err)
{
    char source[DZ_PATH_MAX], target[DZ_PATH_MAX + DZ_NAME_MAX + 2];
    struct dz_str name = dz_cli_tree_name(from);
    int rc = dz_disk_path(from, source, err);
    if (rc < 0)
        return rc;
    if (into)
        (void)snprintf(target, sizeof target, "%s/%.*s", to, DZ_STR_ARG(name));
    const struct dz_cell_op op = {
        .type = DZ_CELL_OP_MOVE, .path = source, .to = into ? target : to};
    return dz_files_do(f, &op, NULL, NULL, NULL, err);
}

static int mv(struct dz_cli *c, struct dz_err *err)
{
    struct dz_files *f = NULL;
    char to[DZ_PATH_MAX];
    bool into = false;
    int rc = dz_disk_path(c->argv[c->argc - 1], to, err);
    if (rc == 0)
        rc = dz_files_open_disk(c, DZ_FILES_CHANGE, &f, err);
    const struct dz_cell_op look = {.type = DZ_CELL_OP_STAT, .path = to, .flags = DZ_CELL_OP_DEEP};
    if (rc == 0)
        rc = dz_files_do(f, &look, note_directory, &into, NULL, err);
    rc = rc == DZ_ENOENT ? 0 : rc; /* the source is renamed to this path */
    if (rc == 0 && !into && c->argc > 3)
        rc = dz_fail_sys(err, ENOTDIR, "move several things to %s", to);
    for (int i = 1; rc == 0 && i < c->argc - 1; i++)
        rc = move(f, c->argv[i], to, into, err);
    return dz_files_close(f, rc, err);
}

const struct dz_cli_command dz_cmd_disk_mv = {
    .name = "disk mv",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "move or rename within a disk",
    .args = "FILE FROM... TO",
    .min_args = 3,
    .max_args = -1,
    .options = (const struct dz_cli_option[]){DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_END},
    .help = "Moves into TO if TO is a directory; otherwise renames to TO and replaces a file\n"
            "there.\n",
    .run = mv,
};

/* --- rm -------------------------------------------------------------------------------------- */

static int rm(struct dz_cli *c, struct dz_err *err)
{
    const struct dz_cell_op op = {.type = DZ_CELL_OP_REMOVE,
                                  .flags = dz_cli_flag(c, "recursive") ? DZ_CELL_OP_DEEP : 0};
    return for_each(c, &op, dz_cli_flag(c, "force") ? DZ_ENOENT : 0, err);
}

const struct dz_cli_command dz_cmd_disk_rm = {
    .name = "disk rm",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "remove files from a disk",
    .args = "FILE PATH...",
    .min_args = 2,
    .max_args = -1,
    .options =
        (const struct dz_cli_option[]){
            {"recursive", 'r', NULL, "remove directories with everything in them"},
            {"force", 'f', NULL, "ignore paths that do not exist"},
            DZ_CLI_OPTION_IMAGE,
            DZ_CLI_OPTION_END},
    .help = "Removes symbolic links themselves, not what they point to, and directories that\n"
            "are empty. The directories workspace, memory and tmp stay.\n",
    .run = rm,
};

/* --- du -------------------------------------------------------------------------------------- */

static void print_usage(struct dz_cli *c, struct dz_json *j, const char *path,
                        const struct dz_cell_usage *u)
{
    char stored[DZ_CLI_SIZE_TEXT];
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    if (c->json) {
        dz_json_object(j);
        dz_json_put_strz(j, "path", path);
        dz_json_put_u64(j, "stored_bytes", u->stored);
        dz_json_put_u64(j, "size_bytes", u->size);
        dz_json_put_u64(j, "inodes", u->names);
        dz_json_end(j);
        return;
    }
    dz_cli_escape(&text, dz_str(path));
    fprintf(c->out, "%-10s %s\n", dz_cli_size(u->stored, stored), text.p);
}

static int du(struct dz_cli *c, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(TEXT_MAX);
    char whole[DZ_PATH_MAX];
    struct dz_files *f = NULL;
    struct dz_cell_usage usage;
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_array(&j);
    int rc = dz_files_open_disk(c, DZ_FILES_LOOK, &f, err);
    for (int i = 1; rc == 0 && i < (c->argc > 1 ? c->argc : 2); i++) {
        const char *path = c->argc > 1 ? c->argv[i] : "/";
        rc = dz_disk_path(path, whole, err);
        if (rc == 0)
            rc = dz_files_usage(f, whole, DZ_CELL_OP_NOFOLLOW, &usage, err);
        if (rc == 0)
            print_usage(c, &j, path, &usage);
    }
    dz_json_end(&j);
    rc = dz_files_close(f, rc, err);
    return rc == 0 && c->json ? dz_cli_print_json(c, &text, dz_json_finish(&j), err) : rc;
}

const struct dz_cli_command dz_cmd_disk_du = {
    .name = "disk du",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "show how much space files on a disk take",
    .args = "FILE [PATH...]",
    .min_args = 1,
    .max_args = -1,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help = "Prints one line for each PATH (/ by default): the content stored at and below\n"
            "it, without holes, including content from an image. A file with several hard\n"
            "links is divided equally among them.\n",
    .run = du,
};

/* --- df -------------------------------------------------------------------------------------- */

static uint64_t file_bytes(const char *file)
{
    char wal[DZ_PATH_MAX + 8];
    struct stat st;
    uint64_t n = stat(file, &st) == 0 ? (uint64_t)st.st_size : 0;
    (void)snprintf(wal, sizeof wal, "%s-wal", file);
    return n + (stat(wal, &st) == 0 ? (uint64_t)st.st_size : 0);
}

static int df_json(struct dz_cli *c, const struct dz_cell_machine_stats *s, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_u64(&j, "file_bytes", file_bytes(c->argv[0]));
    dz_json_put_u64(&j, "used_bytes", s->disk_bytes);
    dz_json_put_u64(&j, "used_inodes", s->inodes);
    dz_json_put_u64(&j, "image_bytes", s->image_bytes);
    dz_json_put_u64(&j, "image_inodes", s->image_inodes);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

static int df(struct dz_cli *c, struct dz_err *err)
{
    char size[DZ_CLI_SIZE_TEXT], used[DZ_CLI_SIZE_TEXT], below[DZ_CLI_SIZE_TEXT];
    struct dz_cell_machine_stats s;
    struct dz_files *f = NULL;
    int rc = dz_files_open_disk(c, DZ_FILES_LOOK, &f, err);
    if (rc == 0)
        rc = dz_files_stats(f, &s, err);
    rc = dz_files_close(f, rc, err);
    if (rc < 0 || c->json)
        return rc < 0 ? rc : df_json(c, &s, err);
    fprintf(c->out, "file %s, content %s in %llu inodes\n",
            dz_cli_size(file_bytes(c->argv[0]), size), dz_cli_size(s.disk_bytes, used),
            (unsigned long long)s.inodes);
    if (dz_cli_value(c, "image"))
        fprintf(c->out, "image below: content %s in %llu inodes\n",
                dz_cli_size(s.image_bytes, below), (unsigned long long)s.image_inodes);
    return 0;
}

const struct dz_cli_command dz_cmd_disk_df = {
    .name = "disk df",
    .group = DZ_CLI_GROUP_DISK,
    .summary = "show how much a disk holds",
    .args = "FILE",
    .min_args = 1,
    .max_args = 1,
    .options =
        (const struct dz_cli_option[]){DZ_CLI_OPTION_IMAGE, DZ_CLI_OPTION_JSON, DZ_CLI_OPTION_END},
    .help = "Shows the size of the file on this machine and how much the disk stores in it.\n"
            "The content of an image is counted separately.\n",
    .run = df,
};
