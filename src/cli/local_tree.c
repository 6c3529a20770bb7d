/* SPDX-License-Identifier: MIT
 *
 * local_tree.c - the target of a guest's tree on this machine, and the messages about it.
 */
#include "cli/local_tree.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/num.h"

#include <errno.h>
#include <string.h>

/* A guest that lies about its files must not fill the disk of this machine. */
#define LIMIT_BYTES (64ull << 30)

struct dz_str dz_cli_tree_name(const char *path)
{
    struct dz_str s = dz_str(path);
    while (s.n && s.p[s.n - 1] == '/')
        s.n--;
    size_t slash = dz_str_rfind_char(s, '/');
    return slash == DZ_STR_NONE ? s : dz_str_sub(s, slash + 1, SIZE_MAX);
}

static void on_skipped(void *arg, const char *sentence)
{
    const struct dz_cli_tree *t = arg;
    dz_cli_warn(t->c, "%s", sentence);
}

static int read_links(struct dz_cli *c, enum dz_tree_links *ret, struct dz_err *err)
{
    static const char *const words[] = {"refuse", "skip", "keep"};
    const char *given = dz_cli_value(c, "links");
    *ret = DZ_TREE_LINKS_REFUSE;
    for (size_t i = 0; given && i < DZ_ARRAY_LEN(words); i++)
        if (strcmp(given, words[i]) == 0) {
            *ret = (enum dz_tree_links)i;
            return 0;
        }
    return given ? dz_cli_usage(c, err, "--links must be refuse, skip or keep, not %s", given) : 0;
}

int dz_cli_tree_init(struct dz_cli *c, struct dz_cli_tree *ret_t, struct dz_err *err)
{
    const char *limit = dz_cli_value(c, "limit");
    *ret_t = (struct dz_cli_tree){
        .c = c,
        .dir = -1,
        .how = {.links_hint = "--links keep copies such links as they are, --links skip leaves "
                              "them out",
                .bytes_max = LIMIT_BYTES,
                .bytes_hint = "--limit allows more",
                .skipped = on_skipped}};
    if (limit && dz_size_parse(dz_str(limit), 0, INT64_MAX, &ret_t->how.bytes_max, err) < 0)
        return dz_cli_usage(c, err, "--limit must be a size such as 64MB, not %s", limit);
    return read_links(c, &ret_t->how.links, err);
}

int dz_cli_tree_begin(struct dz_cli_tree *t, const char *from, const char *to, struct dz_err *err)
{
    char parent[DZ_PATH_MAX], name[DZ_NAME_MAX + 1];
    struct stat st;
    size_t len = strlen(from);
    bool into = stat(to, &st) == 0 && S_ISDIR(st.st_mode);
    bool contents = len >= 2 && strcmp(from + len - 2, "/.") == 0;
    struct dz_str last = dz_cli_tree_name(into ? from : to);
    if (into && !contents && (last.n == 0 || dz_str_eqz(last, ".") || dz_str_eqz(last, "..")))
        return dz_fail(err, DZ_EINVAL,
                       "copy %s to %s: it has no name to be copied under; end it with /. to copy "
                       "its content",
                       from, to);
    if (last.n > DZ_NAME_MAX || strlen(to) >= sizeof parent)
        return dz_fail(err, DZ_ELIMIT, "copy to %s: the name is too long", to);
    (void)snprintf(name, sizeof name, "%.*s", into && contents ? 0 : (int)last.n, last.p);
    size_t cut = into ? strlen(to) : (size_t)(last.p - to);
    (void)snprintf(parent, sizeof parent, "%.*s", (int)cut, to);
    (void)snprintf(t->where, sizeof t->where, "%s%s%s", parent,
                   into && name[0] && parent[cut - 1] != '/' ? "/" : "", name);
    t->dir = dz_fd_open(AT_FDCWD, cut ? parent : ".", O_RDONLY | O_DIRECTORY, 0, err);
    if (t->dir < 0)
        return t->dir;
    t->how.arg = t; /* the address of t is final now */
    return dz_tree_write_open(t->dir, name, &t->how, &t->w, err);
}

int dz_cli_tree_end(struct dz_cli_tree *t, int rc, struct dz_err *err)
{
    struct dz_tree_stats s = {0};
    if (t->w)
        s = *dz_tree_write_stats(t->w);
    rc = dz_tree_write_close(t->w, rc, err);
    t->w = NULL;
    dz_fd_close(&t->dir);
    t->total.files += s.files;
    t->total.directories += s.directories;
    t->total.links += s.links;
    t->total.skipped += s.skipped;
    t->total.bytes += s.bytes;
    if (rc < 0 && s.files + s.directories + s.links > 0)
        dz_cli_warn(t->c,
                    "%s is incomplete: %llu directories, %llu files and %llu links were copied, "
                    "each of them completely",
                    t->where, (unsigned long long)s.directories, (unsigned long long)s.files,
                    (unsigned long long)s.links);
    return rc;
}

int dz_cli_tree_json(struct dz_cli *c, const struct dz_tree_stats *stats, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(DZ_LINE_MAX);
    struct dz_json j;
    dz_json_init(&j, &text, c->out_tty);
    dz_json_object(&j);
    dz_json_put_u64(&j, "files", stats->files);
    dz_json_put_u64(&j, "directories", stats->directories);
    dz_json_put_u64(&j, "links", stats->links);
    dz_json_put_u64(&j, "skipped", stats->skipped);
    dz_json_put_u64(&j, "bytes", stats->bytes);
    dz_json_end(&j);
    return dz_cli_print_json(c, &text, dz_json_finish(&j), err);
}

void dz_cli_tree_left_out(struct dz_cli *c, const char *root, const struct dz_tree_entry *e)
{
    char quoted[DZ_STR_QUOTED];
    struct dz_buf path = DZ_BUF_INIT(2 * DZ_PATH_MAX);
    dz_buf_addf(&path, "%s%s%s", root, e->path[0] ? "/" : "", e->path);
    dz_cli_warn(c, "%s %s: left out", dz_str_quote(dz_str_n(path.p, path.len), quoted), e->why);
    dz_buf_release(&path);
}
