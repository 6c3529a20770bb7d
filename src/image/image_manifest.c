/* SPDX-License-Identifier: MIT
 *
 * image_manifest.c - a manifest as text: docs/format/image.md.
 *
 * One line for each fact: a word and its value. The lines of the configuration are also in the
 * image; they are not trusted, so each is checked, and nothing here grows beyond its limit.
 */
#include "image/image_int.h"

#include "base/json.h"
#include "base/num.h"
#include "base/vec.h"

#include <signal.h>
#include <string.h>
#include <strings.h>

enum {
    TEXT_MAX = 4096, /* bytes of a line's value */
    VERSION_MAX = 4,
    ARENA_MAX = 2 * DZ_IMAGE_MANIFEST_MAX,
};

DZ_VEC(programs, struct dz_image_program);
DZ_VEC(packages, struct dz_image_package);

struct parse {
    struct dz_image *i;
    struct programs programs;
    struct packages packages;
    size_t entry_count, env_count, note_count, port_count;
    int line;
};

bool dz_image_text_ok(struct dz_str s)
{
    if (s.n == 0 || s.n >= TEXT_MAX)
        return false;
    for (size_t k = 0; k < s.n; k++)
        if ((unsigned char)s.p[k] < 0x20 || s.p[k] == 0x7f)
            return false;
    return true;
}

static int wrong(const struct parse *p, const char *what, struct dz_err *err)
{
    return dz_fail(err, DZ_EINVAL, "line %d of the manifest: %s", p->line, what);
}

static const char *keep(struct parse *p, struct dz_str s)
{
    return dz_arena_str(&p->i->arena, s).p;
}

static int take_hash(struct parse *p, struct dz_str s, char ret[static DZ_SHA256_HEX],
                     struct dz_err *err)
{
    uint8_t digest[DZ_SHA256_BYTES];
    if (dz_sha256_parse(s, digest, NULL) < 0)
        return wrong(p, "not a SHA-256 hash", err);
    (void)dz_sha256_hex(digest, ret);
    return 0;
}

static int take_number(struct parse *p, struct dz_str s, uint64_t max, uint64_t *ret,
                       struct dz_err *err)
{
    return dz_num_u64(s, 0, max, ret, NULL) < 0 ? wrong(p, "not a number", err) : 0;
}

/* --- signals and ports --------------------------------------------------------------- */

int dz_image_signal_parse(struct dz_str text)
{
    uint64_t n;
    if (dz_num_u64(text, 1, 64, &n, NULL) == 0)
        return (int)n;
    (void)dz_str_eat(&text, DZ_STR("SIG"));
    if (dz_str_eqz(text, "RTMIN"))
        return SIGRTMIN;
    if (dz_str_eat(&text, DZ_STR("RTMIN+")))
        return dz_num_u64(text, 0, (uint64_t)(64 - SIGRTMIN), &n, NULL) < 0 ? 0 : SIGRTMIN + (int)n;
    for (int i = 1; i < SIGRTMIN; i++)
        if (sigabbrev_np(i) && dz_str_eqz(text, sigabbrev_np(i)))
            return i;
    return 0;
}

const char *dz_image_signal_text(int number, char out[static DZ_IMAGE_SIGNAL_TEXT])
{
    const char *name = sigabbrev_np(number);
    if (number <= 0)
        return NULL;
    if (name)
        (void)snprintf(out, DZ_IMAGE_SIGNAL_TEXT, "SIG%s", name);
    else if (number >= SIGRTMIN)
        (void)snprintf(out, DZ_IMAGE_SIGNAL_TEXT, "SIGRTMIN+%d", number - SIGRTMIN);
    else
        (void)snprintf(out, DZ_IMAGE_SIGNAL_TEXT, "%d", number);
    return out;
}

bool dz_image_port_parse(struct dz_str text, char ret_port[static DZ_IMAGE_PORT_TEXT])
{
    static const char *const protocols[] = {"tcp", "udp", "sctp"};
    struct dz_str number;
    uint64_t n;
    (void)dz_str_split(&text, '/', &number);
    if (dz_num_u64(number, 1, 65535, &n, NULL) < 0)
        return false;
    for (size_t i = 0; i < DZ_ARRAY_LEN(protocols); i++)
        if (text.p
                ? text.n == strlen(protocols[i]) && strncasecmp(text.p, protocols[i], text.n) == 0
                : i == 0) {
            (void)snprintf(ret_port, DZ_IMAGE_PORT_TEXT, "%d/%s", (int)n, protocols[i]);
            return true;
        }
    return false;
}

/* --- lines -------------------------------------------------------------------------- */

/* SHA256 BYTES INO PATH */
static int take_program(struct parse *p, struct dz_str rest, struct dz_err *err)
{
    struct dz_image_program g = {0};
    struct dz_str sha, bytes, ino;
    if (!dz_str_split(&rest, ' ', &sha) || !dz_str_split(&rest, ' ', &bytes) ||
        !dz_str_split(&rest, ' ', &ino) || rest.n == 0 || rest.p[0] != '/')
        return wrong(p, "a program needs a hash, a size, an inode and a path", err);
    int rc = take_hash(p, sha, g.sha256, err);
    if (rc == 0)
        rc = take_number(p, bytes, UINT32_MAX, &g.bytes, err);
    if (rc == 0)
        rc = take_number(p, ino, UINT64_C(1) << 39, &g.ino, err);
    g.path = keep(p, rest);
    if (rc == 0)
        dz_vec_push(&p->programs, g);
    return rc;
}

/* KIND NAME VERSION SHA256 LICENSE */
static int take_package(struct parse *p, struct dz_str rest, struct dz_err *err)
{
    struct dz_str part[4];
    for (size_t k = 0; k < DZ_ARRAY_LEN(part); k++)
        if (!dz_str_split(&rest, ' ', &part[k]) || part[k].n == 0)
            return wrong(p, "a package needs a kind, a name, a version, a hash and a licence", err);
    struct dz_image_package g = {keep(p, part[0]), keep(p, part[1]), keep(p, part[2]),
                                 keep(p, part[3]), keep(p, rest.n ? rest : DZ_STR("-"))};
    dz_vec_push(&p->packages, g);
    return 0;
}

/* SHA256 BYTES */
static int take_pack(struct parse *p, struct dz_str rest, struct dz_err *err)
{
    struct dz_str sha;
    if (!dz_str_split(&rest, ' ', &sha) || rest.n == 0)
        return wrong(p, "a pack needs a hash and a size", err);
    int rc = take_hash(p, sha, p->i->pack_sha256, err);
    return rc < 0 ? rc : take_number(p, rest, DZ_IMAGE_FILE_MAX, &p->i->pack_bytes, err);
}

static int take_word(struct parse *p, const char *list[], size_t *count, struct dz_str s,
                     struct dz_err *err)
{
    if (*count == DZ_IMAGE_WORDS_MAX)
        return wrong(p, "too many words", err);
    list[(*count)++] = keep(p, s);
    return 0;
}

static int take_stop(struct parse *p, struct dz_str rest, struct dz_err *err)
{
    p->i->stop_signal = dz_image_signal_parse(rest);
    return p->i->stop_signal ? 0 : wrong(p, "not a signal", err);
}

static int take_port(struct parse *p, struct dz_str rest, struct dz_err *err)
{
    char port[DZ_IMAGE_PORT_TEXT];
    if (!dz_image_port_parse(rest, port) || !dz_str_eqz(rest, port))
        return wrong(p, "not a port", err);
    return p->port_count == DZ_IMAGE_PORTS_MAX
               ? wrong(p, "too many ports", err)
               : take_word(p, p->i->port, &p->port_count, rest, err);
}

static int take_line(struct parse *p, struct dz_str key, struct dz_str rest, struct dz_err *err)
{
    struct dz_image *i = p->i;
    int rc = 0;
    if (dz_str_eqz(key, "program"))
        return take_program(p, rest, err);
    if (dz_str_eqz(key, "package"))
        return take_package(p, rest, err);
    if (dz_str_eqz(key, "sha256"))
        return take_hash(p, rest, i->sha256, err);
    if (dz_str_eqz(key, "bytes"))
        return take_number(p, rest, DZ_IMAGE_FILE_MAX, &i->bytes, err);
    if (dz_str_eqz(key, "machine"))
        return take_number(p, rest, INT64_MAX, &i->machine_bytes, err);
    if (dz_str_eqz(key, "memory"))
        return take_number(p, rest, UINT64_C(4) << 30, &i->memory_bytes, err);
    if (dz_str_eqz(key, "entry"))
        return take_word(p, i->entry, &p->entry_count, rest, err);
    if (dz_str_eqz(key, "note"))
        return p->note_count == DZ_IMAGE_NOTES_MAX
                   ? wrong(p, "too many notes", err)
                   : take_word(p, i->note, &p->note_count, rest, err);
    if (dz_str_eqz(key, "pack"))
        return take_pack(p, rest, err);
    if (dz_str_eqz(key, "stop"))
        return take_stop(p, rest, err);
    if (dz_str_eqz(key, "port"))
        return take_port(p, rest, err);
    if (dz_str_eqz(key, "policy"))
        i->policy = keep(p, rest);
    else if (dz_str_eqz(key, "kind") && dz_str_eqz(rest, "linux"))
        i->kind = DZ_IMAGE_LINUX;
    else if (dz_str_eqz(key, "user"))
        i->user = keep(p, rest);
    else if (dz_str_eqz(key, "workdir") && rest.p[0] == '/')
        i->workdir = keep(p, rest);
    else if (dz_str_eqz(key, "env") && dz_str_find_char(rest, '=') != DZ_STR_NONE)
        rc = take_word(p, i->env, &p->env_count, rest, err);
    else
        rc = wrong(p, "unknown or malformed line", err);
    return rc;
}

/* The version in a text's first line; 0: not one that is supported. */
static int version_of(struct dz_str line)
{
    uint64_t version = 0;
    return dz_str_eat(&line, DZ_STR("doze-image ")) &&
                   dz_num_u64(line, 1, VERSION_MAX, &version, NULL) == 0
               ? (int)version
               : 0;
}

static int take_lines(struct parse *p, struct dz_str text, struct dz_err *err)
{
    struct dz_str line, key;
    int rc = 0;
    for (p->line = 1; rc == 0 && dz_str_split(&text, '\n', &line); p->line++) {
        if (p->line == 1 && !version_of(line))
            return wrong(p, "not a manifest of an image, or a newer version of one", err);
        if (p->line == 1 || (line.n == 0 && text.n == 0))
            continue;
        if (!dz_image_text_ok(line) || !dz_str_split(&line, ' ', &key) || line.n == 0)
            return wrong(p, "expected a word and its value", err);
        rc = take_line(p, key, line, err);
    }
    if (rc == 0 && p->line == 1)
        rc = wrong(p, "it is empty", err);
    return rc;
}

/* --- the whole ------------------------------------------------------------------------ */

static int finish(struct parse *p, struct dz_err *err)
{
    struct dz_image *i = p->i;
    int rc = p->programs.err ? p->programs.err : p->packages.err;
    i->programs = dz_arena_array(&i->arena, p->programs.n, sizeof *p->programs.p);
    i->packages = dz_arena_array(&i->arena, p->packages.n, sizeof *p->packages.p);
    if (i->arena.err)
        rc = i->arena.err;
    if (rc < 0)
        return dz_fail(err, rc, "the manifest of an image is too large");
    i->program_count = p->programs.n;
    i->package_count = p->packages.n;
    if (p->programs.n)
        memcpy(i->programs, p->programs.p, p->programs.n * sizeof *p->programs.p);
    if (p->packages.n)
        memcpy(i->packages, p->packages.p, p->packages.n * sizeof *p->packages.p);
    return 0;
}

int dz_image_parse(struct dz_str text, struct dz_image *ret_image, struct dz_err *err)
{
    struct dz_image i = {.arena = DZ_ARENA_INIT(ARENA_MAX)};
    struct parse p = {.i = &i,
                      .programs = DZ_VEC_INIT(DZ_IMAGE_PROGRAMS_MAX),
                      .packages = DZ_VEC_INIT(DZ_IMAGE_PACKAGES_MAX)};
    int rc = text.n > DZ_IMAGE_MANIFEST_MAX
                 ? dz_fail(err, DZ_ELIMIT, "the manifest has %zu bytes; at most %d are allowed",
                           text.n, DZ_IMAGE_MANIFEST_MAX)
                 : take_lines(&p, text, err);
    if (rc == 0)
        rc = finish(&p, err);
    dz_vec_release(&p.programs);
    dz_vec_release(&p.packages);
    if (rc < 0)
        dz_arena_release(&i.arena);
    else
        *ret_image = i;
    return rc;
}

void dz_image_release(struct dz_image *i)
{
    dz_arena_release(&i->arena);
}

void dz_image_put_programs(struct dz_json *j, const char *key, const struct dz_image *i)
{
    dz_json_key(j, key);
    dz_json_array(j);
    for (size_t k = 0; k < i->program_count; k++) {
        dz_json_object(j);
        dz_json_put_strz(j, "path", i->programs[k].path);
        dz_json_put_u64(j, "size_bytes", i->programs[k].bytes);
        dz_json_put_strz(j, "sha256", i->programs[k].sha256);
        dz_json_end(j);
    }
    dz_json_end(j);
}

static const char *said(const char *word)
{
    return strcmp(word, "-") == 0 ? NULL : word;
}

void dz_image_put_packages(struct dz_json *j, const char *key, const struct dz_image *i,
                           bool hashes)
{
    dz_json_key(j, key);
    dz_json_array(j);
    for (size_t k = 0; k < i->package_count; k++) {
        const struct dz_image_package *p = &i->packages[k];
        dz_json_object(j);
        dz_json_put_strz(j, "kind", p->kind);
        dz_json_put_strz(j, "name", p->name);
        dz_json_put_strz(j, "version", p->version);
        if (hashes)
            dz_json_put_strz(j, "sha256", said(p->sha256));
        dz_json_put_strz(j, "license", said(p->license));
        dz_json_end(j);
    }
    dz_json_end(j);
}

char *dz_image_ref(const char *sha256, char out[static DZ_IMAGE_REF])
{
    (void)snprintf(out, DZ_IMAGE_REF, "img_%.12s", sha256);
    return out;
}

const char *dz_image_kind_text(enum dz_image_kind kind)
{
    return kind == DZ_IMAGE_LINUX ? "linux" : "wasm";
}

static void print_facts(const struct dz_image *i, struct dz_buf *out)
{
    char stop[DZ_IMAGE_SIGNAL_TEXT];
    if (i->kind != DZ_IMAGE_WASM)
        dz_buf_addf(out, "kind %s\n", dz_image_kind_text(i->kind));
    if (i->pack_sha256[0])
        dz_buf_addf(out, "pack %s %llu\n", i->pack_sha256, (unsigned long long)i->pack_bytes);
    for (size_t k = 0; i->note[k]; k++)
        dz_buf_addf(out, "note %s\n", i->note[k]);
    if (i->policy)
        dz_buf_addf(out, "policy %s\n", i->policy);
    if (i->memory_bytes)
        dz_buf_addf(out, "memory %llu\n", (unsigned long long)i->memory_bytes);
    if (i->user)
        dz_buf_addf(out, "user %s\n", i->user);
    if (i->workdir)
        dz_buf_addf(out, "workdir %s\n", i->workdir);
    for (size_t k = 0; i->entry[k]; k++)
        dz_buf_addf(out, "entry %s\n", i->entry[k]);
    for (size_t k = 0; i->env[k]; k++)
        dz_buf_addf(out, "env %s\n", i->env[k]);
    if (i->stop_signal)
        dz_buf_addf(out, "stop %s\n", dz_image_signal_text(i->stop_signal, stop));
    for (size_t k = 0; i->port[k]; k++)
        dz_buf_addf(out, "port %s\n", i->port[k]);
    for (size_t k = 0; k < i->package_count; k++) {
        const struct dz_image_package *p = &i->packages[k];
        dz_buf_addf(out, "package %s %s %s %s %s\n", p->kind, p->name, p->version, p->sha256,
                    p->license);
    }
}

/* The lowest version that has all of the fields. */
static int version_for(const struct dz_image *i, bool machine)
{
    return i->stop_signal || i->port[0] ? 4 : i->kind != DZ_IMAGE_WASM ? 3 : machine ? 2 : 1;
}

void dz_image_print_config(const struct dz_image *i, struct dz_buf *out)
{
    dz_buf_addf(out, "doze-image %d\n", version_for(i, false));
    print_facts(i, out);
}

void dz_image_print(const struct dz_image *i, struct dz_buf *out)
{
    dz_buf_addf(out, "doze-image %d\n", version_for(i, i->machine_bytes > 0));
    print_facts(i, out);
    if (i->machine_bytes)
        dz_buf_addf(out, "machine %llu\n", (unsigned long long)i->machine_bytes);
    dz_buf_addf(out, "sha256 %s\nbytes %llu\n", i->sha256, (unsigned long long)i->bytes);
    for (size_t k = 0; k < i->program_count; k++) {
        const struct dz_image_program *p = &i->programs[k];
        dz_buf_addf(out, "program %s %llu %llu %s\n", p->sha256, (unsigned long long)p->bytes,
                    (unsigned long long)p->ino, p->path);
    }
}
