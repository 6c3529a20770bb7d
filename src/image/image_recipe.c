/* SPDX-License-Identifier: MIT
 *
 * image_recipe.c - read a recipe: docs/guide/images.md has the format.
 *
 * libinih splits lines into keys and values. The heads of sections are taken from the lines
 * themselves as they pass, because the library reports no section without keys and cuts a long
 * head. This also gives the line number for messages.
 */
#include "image/image_int.h"

#include "base/fd.h"
#include "base/num.h"
#include "kernel/kernel.h"

#include <ini.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    RECIPE_MAX = 1 << 20,
    INI_NAME = 49, /* bytes of a key that libinih keeps */
    NAME_MAX_BYTES = 128,
    CONTAINS_MAX = 512, /* packages that a recipe declares */
    PATTERNS_MAX = 64,  /* patterns of files that are left out of packages */
    ARENA_MAX = 16 << 20,
};

struct reading {
    struct dz_recipe *r;
    const char *file;
    struct dz_str rest; /* rest of the text */
    int line;
    struct dz_step *step; /* step of this section; NULL: [image] or [env] */
    bool env, image, any;
    size_t entry_count, env_count, note_count, copy_count, port_count;
    struct dz_copy copies[DZ_IMAGE_COPIES_MAX];
    struct dz_image_package packages[CONTAINS_MAX];
    size_t package_count;
    struct dz_pattern patterns[PATTERNS_MAX];
    size_t pattern_count;
    bool apt;
    int failed;
    struct dz_err *err;
};

DZ_PRINTF(3, 4) static int wrong(struct reading *g, int line, const char *fmt, ...)
{
    char what[200];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (!g->failed)
        g->failed = dz_fail(g->err, DZ_EINVAL, "%s:%d: %s", g->file, line, what);
    return g->failed;
}

static const char *keep(struct reading *g, const char *text)
{
    return dz_arena_str(&g->r->arena, dz_str(text)).p;
}

static int set_once(struct reading *g, const char **to, const char *name, const char *value)
{
    if (*to)
        return wrong(g, g->line, "%s is given twice", name);
    *to = keep(g, value);
    return 0;
}

/* Set a path of this machine, relative to the recipe's directory; for several sources, the
 * words. */
static int set_source(struct reading *g, const char **to, const char *name, const char *value)
{
    DZ_AUTO(dz_buf_release) struct dz_buf path = DZ_BUF_INIT(1 << 16);
    struct dz_str rest = dz_str(value), word;
    while (dz_str_split(&rest, ' ', &word)) {
        if (word.n == 0)
            continue;
        dz_buf_adds(&path, path.len ? " " : "");
        if (word.p[0] != '/')
            dz_buf_addf(&path, "%s/", g->r->dir);
        dz_buf_add(&path, word.p, word.n);
    }
    return set_once(g, to, name, path.p);
}

/* --- sections ------------------------------------------------------------------------ */

#define BIT(kind) (1u << (kind))
#define ARCHIVES  (BIT(DZ_STEP_TAR) | BIT(DZ_STEP_PYPI) | BIT(DZ_STEP_NPM) | BIT(DZ_STEP_CRATE))
#define FETCHED   (BIT(DZ_STEP_DEBIAN) | BIT(DZ_STEP_PYPI) | BIT(DZ_STEP_NPM) | BIT(DZ_STEP_CRATE))
#define PLACED                                                                      \
    (BIT(DZ_STEP_DIR) | BIT(DZ_STEP_FILE) | BIT(DZ_STEP_LINK) | BIT(DZ_STEP_TREE) | \
     BIT(DZ_STEP_TAR) | BIT(DZ_STEP_C) | BIT(DZ_STEP_REMOVE))

static const struct {
    const char *name;
    enum dz_step_kind kind;
} kinds[] = {
    {"dir", DZ_STEP_DIR},       {"file", DZ_STEP_FILE}, {"link", DZ_STEP_LINK},
    {"tree", DZ_STEP_TREE},     {"tar", DZ_STEP_TAR},   {"c", DZ_STEP_C},
    {"debian", DZ_STEP_DEBIAN}, {"pypi", DZ_STEP_PYPI}, {"npm", DZ_STEP_NPM},
    {"crate", DZ_STEP_CRATE},   {"apt", DZ_STEP_APT},   {"script", DZ_STEP_SCRIPT},
    {"remove", DZ_STEP_REMOVE},
};

static bool is(const struct dz_step *s, unsigned bits)
{
    return (BIT(s->kind) & bits) != 0;
}

/* Check, when the next section begins, that the last one has all it needs. */
static int finish_step(struct reading *g)
{
    const struct dz_step *s = g->step;
    bool one = s && s->text && s->source;
    if (!s || g->failed)
        return g->failed;
    if (is(s, FETCHED) && !s->version)
        return wrong(g, s->line, "version is missing: it must be exact");
    if (is(s, BIT(DZ_STEP_PYPI) | BIT(DZ_STEP_CRATE)) && !s->sha256)
        return wrong(g, s->line, "sha256 is missing: it is the hash of the fetched file");
    if (is(s, BIT(DZ_STEP_DEBIAN)) && !s->build)
        return wrong(g, s->line, "build is missing: it is the script that compiles the source");
    if (is(s, FETCHED) && s->build && !s->path)
        return wrong(g, s->line, "path is missing: it is the program's path in the image");
    if (s->kind == DZ_STEP_LINK && !s->text)
        return wrong(g, s->line, "target is missing");
    if (s->kind == DZ_STEP_FILE && ((!s->text && !s->source) || one))
        return wrong(g, s->line, "either source or text is needed");
    if (is(s, BIT(DZ_STEP_TREE) | BIT(DZ_STEP_TAR) | BIT(DZ_STEP_C)) && !s->source)
        return wrong(g, s->line, "source is missing");
    if (s->kind == DZ_STEP_APT && !s->text)
        return wrong(g, s->line, "package is missing: the names of those wanted");
    bool archive = is(s, FETCHED & ARCHIVES);
    if (s->kind == DZ_STEP_TAR && s->has_mode && !s->copy_count)
        return wrong(g, s->line,
                     "mode requires copy, because an archive that is unpacked as a whole keeps its "
                     "modes");
    if (archive && !s->copy_count && !s->build)
        return wrong(g, s->line,
                     "copy or build is missing: the members to take from the archive, or how to "
                     "compile it");
    if (archive && s->copy_count && s->build)
        return wrong(g, s->line, "a section has copy or build, not both: write two sections");
    return 0;
}

/* Is the name or version of a package valid? It becomes a word of a package manager's command
 * line. */
static bool plain_name(struct dz_str s, const char *others)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!plain && !strchr(i == 0 ? "@" : others, c))
            return false;
    }
    return s.n > 0 && s.n <= NAME_MAX_BYTES;
}

static bool name_ok(struct dz_str s)
{
    return plain_name(s, "@/._+-:~!");
}

/* The name of the section is the file of the lock. */
static int begin_apt(struct reading *g)
{
    if (g->apt)
        return wrong(g, g->line, "a recipe has one [apt] section");
    g->apt = true;
    return set_source(g, &g->step->source, "the lock", g->step->label);
}

static int begin_step(struct reading *g, enum dz_step_kind kind, struct dz_str label)
{
    struct dz_recipe *r = g->r;
    if (r->step_count == DZ_IMAGE_STEPS_MAX)
        return wrong(g, g->line, "more than %d sections", DZ_IMAGE_STEPS_MAX);
    struct dz_step *s = g->step = &r->steps[r->step_count++];
    *s = (struct dz_step){.kind = kind,
                          .line = g->line,
                          .label = dz_arena_str(&r->arena, label).p,
                          .fd = -1,
                          .copies = g->copies + g->copy_count};
    if (!dz_image_text_ok(label))
        return wrong(g, g->line, "the section has no name: [%s NAME]", kinds[kind - 1].name);
    if (is(s, PLACED) && label.p[0] != '/')
        return wrong(g, g->line, "a path in the image must begin with /");
    if (is(s, FETCHED) && !name_ok(label))
        return wrong(g, g->line, "not the name of a package");
    if (is(s, PLACED))
        s->path = s->label;
    if (s->kind == DZ_STEP_APT)
        return begin_apt(g);
    if (s->kind == DZ_STEP_SCRIPT)
        return set_source(g, &s->build, "the script", s->label);
    s->mode = is(s, FETCHED | BIT(DZ_STEP_DIR) | BIT(DZ_STEP_C)) ? 0755 : 0644;
    return 0;
}

/* "[kind label]" */
static int begin_section(struct reading *g, struct dz_str line)
{
    int rc = finish_step(g);
    struct dz_str head = dz_str_sub(line, 1, dz_str_find_char(line, ']') - 1), word;
    if (rc < 0 || dz_str_find_char(line, ']') == DZ_STR_NONE)
        return rc < 0 ? rc : wrong(g, g->line, "the head of the section does not end in ]");
    g->step = NULL;
    g->env = g->image = false;
    g->any = true;
    (void)dz_str_split(&head, ' ', &word);
    head = dz_str_trim(head);
    if (dz_str_eqz(word, "image") || dz_str_eqz(word, "env")) {
        g->env = word.p[0] == 'e';
        g->image = !g->env;
        return 0;
    }
    for (size_t i = 0; i < DZ_ARRAY_LEN(kinds); i++)
        if (dz_str_eqz(word, kinds[i].name))
            return begin_step(g, kinds[i].kind, head);
    return wrong(
        g, g->line,
        "unknown section; the sections are image, env, dir, file, link, tree, tar, c, debian, pypi, npm, crate, apt, script and remove");
}

/* --- keys ------------------------------------------------------------------------------ */

static int set_words(struct reading *g, const char *list[], size_t *count, const char *value)
{
    struct dz_str rest = dz_str(value), word;
    while (dz_str_split(&rest, ' ', &word)) {
        if (word.n == 0)
            continue;
        if (*count == DZ_IMAGE_WORDS_MAX)
            return wrong(g, g->line, "more than %d words", DZ_IMAGE_WORDS_MAX);
        list[(*count)++] = dz_arena_str(&g->r->arena, word).p;
    }
    return 0;
}

/* "WHERE-FROM NAME VERSION LICENSE" */
static int set_contains(struct reading *g, const char *value)
{
    struct dz_str rest = dz_str(value), part[3];
    if (g->package_count == CONTAINS_MAX)
        return wrong(g, g->line, "more than %d packages", CONTAINS_MAX);
    for (size_t i = 0; i < DZ_ARRAY_LEN(part); i++)
        if (!dz_str_split(&rest, ' ', &part[i]) || !name_ok(part[i]))
            return wrong(g, g->line,
                         "contains requires an origin, a name, a version and a licence");
    rest = dz_str_trim(rest);
    if (rest.n == 0)
        return wrong(g, g->line, "contains requires a licence");
    struct dz_arena *a = &g->r->arena;
    g->packages[g->package_count++] =
        (struct dz_image_package){dz_arena_str(a, part[0]).p, dz_arena_str(a, part[1]).p,
                                  dz_arena_str(a, part[2]).p, "-", dz_arena_str(a, rest).p};
    return 0;
}

static int set_note(struct reading *g, const char *value)
{
    if (g->note_count == DZ_IMAGE_NOTES_MAX)
        return wrong(g, g->line, "more than %d notes", DZ_IMAGE_NOTES_MAX);
    if (!dz_image_text_ok(dz_str(value)))
        return wrong(g, g->line, "a note must be one line of text");
    g->r->config.note[g->note_count++] = keep(g, value);
    return 0;
}

static int set_kind(struct reading *g, const char *value)
{
    const bool native = strcmp(value, "linux") == 0;
    if (!native && strcmp(value, "wasm") != 0)
        return wrong(g, g->line, "kind: must be wasm or linux, not %s", value);
    if (g->r->has_kind)
        return wrong(g, g->line, "kind is given twice");
    g->r->has_kind = true;
    g->r->config.kind = native ? DZ_IMAGE_LINUX : DZ_IMAGE_WASM;
    return 0;
}

static int set_stop(struct reading *g, const char *value)
{
    g->r->config.stop_signal = dz_image_signal_parse(dz_str(value));
    return g->r->config.stop_signal ? 0 : wrong(g, g->line, "stop must be a signal such as SIGINT");
}

/* Words such as 8080 or 53/udp. */
static int set_ports(struct reading *g, const char *value)
{
    char port[DZ_IMAGE_PORT_TEXT];
    struct dz_str rest = dz_str(value), word;
    while (dz_str_split(&rest, ' ', &word)) {
        if (word.n == 0)
            continue;
        if (!dz_image_port_parse(word, port))
            return wrong(g, g->line, "port must be a number such as 8080, or 53/udp");
        if (g->port_count == DZ_IMAGE_PORTS_MAX)
            return wrong(g, g->line, "more than %d ports", DZ_IMAGE_PORTS_MAX);
        g->r->config.port[g->port_count++] = keep(g, port);
    }
    return 0;
}

static int set_image(struct reading *g, const char *name, const char *value)
{
    struct dz_image *c = &g->r->config;
    if (strcmp(name, "name") == 0)
        return set_once(g, &g->r->name, name, value);
    if (strcmp(name, "from") == 0)
        return set_once(g, &g->r->from, name, value);
    if (strcmp(name, "user") == 0)
        return set_once(g, &c->user, name, value);
    if (strcmp(name, "entry") == 0)
        return set_words(g, c->entry, &g->entry_count, value);
    if (strcmp(name, "workdir") == 0)
        return value[0] == '/' ? set_once(g, &c->workdir, name, value)
                               : wrong(g, g->line, "workdir must begin with /");
    if (strcmp(name, "policy") == 0)
        return dz_policy_find(value)
                   ? set_once(g, &c->policy, name, value)
                   : wrong(g, g->line, "policy: must be minimal, network, posix or compute, not %s",
                           value);
    if (strcmp(name, "memory") == 0)
        return dz_size_parse(dz_str(value), 1 << 20, UINT64_C(4) << 30, &c->memory_bytes, NULL) < 0
                   ? wrong(g, g->line, "memory must be a size from 1MiB to 4GiB, such as 512MB")
                   : 0;
    if (strcmp(name, "kind") == 0)
        return set_kind(g, value);
    if (strcmp(name, "contains") == 0)
        return set_contains(g, value);
    if (strcmp(name, "note") == 0)
        return set_note(g, value);
    if (strcmp(name, "stop") == 0)
        return set_stop(g, value);
    if (strcmp(name, "port") == 0)
        return set_ports(g, value);
    if (strcmp(name, "services") == 0)
        return wrong(g, g->line, "services are not supported yet");
    return wrong(
        g, g->line,
        "unknown key in [image]; the keys are name, from, kind, entry, user, workdir, policy, memory, stop, port, note and contains");
}

static int set_env(struct reading *g, const char *name, const char *value)
{
    struct dz_image *c = &g->r->config;
    DZ_AUTO(dz_buf_release) struct dz_buf line = DZ_BUF_INIT(1 << 16);
    if (g->env_count == DZ_IMAGE_WORDS_MAX)
        return wrong(g, g->line, "more than %d variables", DZ_IMAGE_WORDS_MAX);
    if (!dz_image_text_ok(dz_str(name)))
        return wrong(g, g->line, "a variable must have a name");
    dz_buf_addf(&line, "%s=%s", name, value);
    c->env[g->env_count++] = keep(g, line.p);
    return 0;
}

/* "FROM TO" */
static int set_copy(struct reading *g, const char *value)
{
    struct dz_str to = dz_str(value), from;
    if (g->copy_count == DZ_IMAGE_COPIES_MAX)
        return wrong(g, g->line, "more than %d members copied from archives", DZ_IMAGE_COPIES_MAX);
    (void)dz_str_split(&to, ' ', &from);
    to = dz_str_trim(to);
    if (from.n == 0 || to.n == 0 || to.p[0] != '/')
        return wrong(g, g->line, "copy requires a member of the archive and an absolute path");
    g->copies[g->copy_count++] =
        (struct dz_copy){dz_arena_str(&g->r->arena, from).p, dz_arena_str(&g->r->arena, to).p};
    g->step->copy_count++;
    return 0;
}

static int set_mode(struct reading *g, const char *value)
{
    uint32_t mode = 0;
    size_t n = strspn(value, "01234567");
    for (size_t i = 0; i < n && i < 5; i++)
        mode = mode << 3 | (uint32_t)(value[i] - '0');
    if (n == 0 || n > 5 || value[n] || mode > 07777)
        return wrong(g, g->line, "mode must be octal, such as 0755");
    g->step->mode = mode;
    g->step->has_mode = true;
    return 0;
}

static int set_owner(struct reading *g, const char *value)
{
    struct dz_str gid = dz_str(value), uid;
    uint64_t u = 0, v = 0;
    (void)dz_str_split(&gid, ':', &uid);
    if (dz_num_u64(uid, 0, UINT32_MAX - 1, &u, NULL) < 0 ||
        dz_num_u64(gid.p ? gid : uid, 0, UINT32_MAX - 1, &v, NULL) < 0)
        return wrong(g, g->line, "owner must be UID or UID:GID, as numbers");
    g->step->uid = (uint32_t)u;
    g->step->gid = (uint32_t)v;
    return 0;
}

static int set_sha256(struct reading *g, const char *value)
{
    uint8_t digest[DZ_SHA256_BYTES];
    if (dz_sha256_parse(dz_str(value), digest, NULL) < 0)
        return wrong(g, g->line, "sha256 must be 64 hexadecimal digits");
    return set_once(g, &g->step->sha256, "sha256", value);
}

static int set_text(struct reading *g, const char *value)
{
    struct dz_step *s = g->step;
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(RECIPE_MAX);
    dz_buf_addf(&text, "%s%s\n", s->text ? s->text : "", value);
    s->text = keep(g, text.p);
    return 0;
}

/* Packages to install, as words of apt's command line. */
static int set_wanted(struct reading *g, const char *value)
{
    struct dz_str rest = dz_str(value), word;
    while (dz_str_split(&rest, ' ', &word))
        if (word.n && (!plain_name(word, "./_+-:~=") || word.p[0] == '@'))
            return wrong(g, g->line, "%.*s is not the name of a package", DZ_STR_ARG(word));
    return set_text(g, value);
}

static int set_pattern(struct reading *g, const char *value, bool exclude)
{
    if (value[0] != '/')
        return wrong(g, g->line, "a pattern of paths must begin with /");
    if (g->pattern_count == PATTERNS_MAX)
        return wrong(g, g->line, "more than %d patterns", PATTERNS_MAX);
    g->patterns[g->pattern_count++] = (struct dz_pattern){keep(g, value), exclude};
    return 0;
}

static int set_path(struct reading *g, const char *value)
{
    if (value[0] != '/')
        return wrong(g, g->line, "a path in the image must begin with /");
    return set_once(g, &g->step->path, "path", value);
}

static int set_apt(struct reading *g, const char *name, const char *value)
{
    if (strcmp(name, "package") == 0)
        return set_wanted(g, value);
    if (strcmp(name, "exclude") == 0 || strcmp(name, "include") == 0)
        return set_pattern(g, value, name[0] == 'e');
    return wrong(g, g->line, "[apt] has no key %s", name);
}

static int set_step(struct reading *g, const char *name, const char *value)
{
    struct dz_step *s = g->step;
    if (s->kind == DZ_STEP_APT)
        return set_apt(g, name, value);
    if (s->kind == DZ_STEP_SCRIPT)
        return wrong(g, g->line, "[script] has no keys");
    if (strcmp(name, "mode") == 0)
        return set_mode(g, value);
    if (strcmp(name, "owner") == 0)
        return set_owner(g, value);
    if (strcmp(name, "source") == 0)
        return set_source(g, &s->source, name, value);
    if (strcmp(name, "text") == 0 && s->kind == DZ_STEP_FILE)
        return set_text(g, value);
    if (strcmp(name, "target") == 0 && s->kind == DZ_STEP_LINK)
        return set_once(g, &s->text, name, value);
    if (strcmp(name, "flags") == 0 && is(s, BIT(DZ_STEP_C)))
        return set_once(g, &s->flags, name, value);
    if (strcmp(name, "copy") == 0 && is(s, ARCHIVES))
        return set_copy(g, value);
    if (strcmp(name, "sha256") == 0 && is(s, ARCHIVES))
        return set_sha256(g, value);
    if (strcmp(name, "license") == 0)
        return set_once(g, &s->license, name, value);
    if (strcmp(name, "version") == 0 && is(s, FETCHED))
        return name_ok(dz_str(value)) ? set_once(g, &s->version, name, value)
                                      : wrong(g, g->line, "not the version of a package");
    if (strcmp(name, "build") == 0 && is(s, FETCHED))
        return set_source(g, &s->build, name, value);
    if (strcmp(name, "path") == 0 && is(s, FETCHED))
        return set_path(g, value);
    return wrong(g, g->line, "[%s] has no key %s", kinds[s->kind - 1].name, name);
}

static int on_key(void *user, const char *section, const char *name, const char *value)
{
    struct reading *g = user;
    (void)section;
    if (g->failed)
        return 0;
    if (strlen(name) >= INI_NAME)
        (void)wrong(g, g->line, "a key of %zu bytes is too long", strlen(name));
    else if (!dz_image_text_ok(dz_str(value)))
        (void)wrong(g, g->line, "%s has no value, or one with control characters", name);
    else if (g->step)
        (void)set_step(g, name, value);
    else if (g->image || g->env)
        (void)(g->env ? set_env(g, name, value) : set_image(g, name, value));
    else
        (void)wrong(g, g->line, "%s is before the first section", name);
    return g->failed == 0;
}

/* --- lines --------------------------------------------------------------------------------- */

/* Get the next line, as fgets would. */
static char *next_line(char *to, int size, void *stream)
{
    struct reading *g = stream;
    struct dz_str line;
    if (g->failed || !g->rest.p || (g->rest.n == 0 && g->line > 0) ||
        !dz_str_split(&g->rest, '\n', &line))
        return NULL;
    g->line++;
    if (line.n + 2 > (size_t)size) {
        (void)wrong(g, g->line, "a line has %zu bytes; at most %d are allowed", line.n, size - 2);
        return NULL;
    }
    if (line.n > 0 && memchr(line.p, 0, line.n)) {
        (void)wrong(g, g->line, "a NUL byte");
        return NULL;
    }
    struct dz_str trimmed = dz_str_trim(line);
    if (trimmed.n > 0 && trimmed.p[0] == '[') {
        if (begin_section(g, trimmed) < 0)
            return NULL;
        line = trimmed; /* an indented line would continue the value above */
    }
    (void)snprintf(to, (size_t)size, "%.*s\n", (int)line.n, line.p);
    return to;
}

static int parse(struct reading *g, struct dz_str text, struct dz_err *err)
{
    g->rest = text;
    g->err = err;
    int line = ini_parse_stream(next_line, g, on_key, g);
    if (!g->failed && line != 0)
        (void)wrong(g, line > 0 ? line : g->line, "expected a [section], KEY = VALUE or a comment");
    if (!g->failed)
        (void)finish_step(g);
    if (!g->failed && !g->any)
        (void)wrong(g, 1, "the recipe has no section");
    if (!g->failed && g->r->arena.err)
        g->failed = dz_fail(err, g->r->arena.err, "%s: the recipe is too large", g->file);
    return g->failed;
}

static const char *directory_of(struct dz_recipe *r, const char *file)
{
    const char *slash = strrchr(file, '/');
    if (!slash)
        return ".";
    return slash == file ? "/" : dz_arena_str(&r->arena, dz_str_n(file, (size_t)(slash - file))).p;
}

static int own_lists(struct dz_recipe *r, const struct reading *g, struct dz_err *err)
{
    struct dz_copy *all = dz_arena_array(&r->arena, g->copy_count, sizeof *all);
    r->config.packages = dz_arena_array(&r->arena, g->package_count, sizeof *g->packages);
    r->config.package_count = g->package_count;
    if (!all || !r->config.packages)
        return dz_fail(err, DZ_ENOMEM, "read a recipe: out of memory");
    if (g->copy_count)
        memcpy(all, g->copies, g->copy_count * sizeof *all);
    if (g->package_count)
        memcpy(r->config.packages, g->packages, g->package_count * sizeof *g->packages);
    struct dz_pattern *patterns = dz_arena_array(&r->arena, g->pattern_count, sizeof *patterns);
    if (!patterns)
        return dz_fail(err, DZ_ENOMEM, "read a recipe: out of memory");
    if (g->pattern_count)
        memcpy(patterns, g->patterns, g->pattern_count * sizeof *patterns);
    for (size_t i = 0; i < r->step_count; i++) {
        struct dz_step *s = &r->steps[i];
        s->copies = all + (s->copies - g->copies);
        if (s->kind == DZ_STEP_APT) {
            s->patterns = patterns;
            s->pattern_count = g->pattern_count;
        }
    }
    return 0;
}

int dz_recipe_parse(const char *file, struct dz_str text, struct dz_recipe *ret_recipe,
                    struct dz_err *err)
{
    *ret_recipe = (struct dz_recipe){.arena = DZ_ARENA_INIT(ARENA_MAX)};
    ret_recipe->dir = directory_of(ret_recipe, file);
    struct reading *g = dz_arena_alloc(&ret_recipe->arena, sizeof *g);
    int rc = g ? 0 : dz_fail(err, DZ_ENOMEM, "read a recipe: out of memory");
    if (rc == 0) {
        g->r = ret_recipe;
        g->file = file;
        rc = parse(g, text, err);
    }
    if (rc == 0)
        rc = own_lists(ret_recipe, g, err);
    if (rc < 0)
        dz_recipe_release(ret_recipe);
    return rc;
}

int dz_recipe_read(const char *file, struct dz_recipe *ret_recipe, struct dz_err *err)
{
    DZ_AUTO(dz_buf_release) struct dz_buf text = DZ_BUF_INIT(RECIPE_MAX);
    int rc = dz_fd_read_file(AT_FDCWD, file, &text, err);
    return rc < 0 ? rc : dz_recipe_parse(file, dz_str_n(text.p, text.len), ret_recipe, err);
}

int dz_recipe_of_dir(const char *dir, struct dz_recipe *ret_recipe, struct dz_err *err)
{
    struct stat st;
    *ret_recipe = (struct dz_recipe){.arena = DZ_ARENA_INIT(ARENA_MAX), .dir = "."};
    if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
        return dz_fail(err, DZ_EINVAL, "%s is not a directory", dir);
    ret_recipe->steps[0] =
        (struct dz_step){.kind = DZ_STEP_TREE,
                         .label = "/",
                         .path = "/",
                         .fd = -1,
                         .source = dz_arena_str(&ret_recipe->arena, dz_str(dir)).p};
    ret_recipe->step_count = 1;
    return ret_recipe->arena.err ? dz_fail(err, DZ_ENOMEM, "read a recipe: out of memory") : 0;
}

/* --- recipes from outside ------------------------------------------------------------------ */

static bool is_below(const char *dir, const char *path)
{
    char real_dir[PATH_MAX], real[PATH_MAX];
    size_t n;
    if (!realpath(dir, real_dir) || !realpath(path, real))
        return false;
    n = strlen(real_dir);
    return strncmp(real, real_dir, n) == 0 && (real[n] == '/' || real[n] == '\0');
}

int dz_recipe_confined(const struct dz_recipe *r, struct dz_err *err)
{
    const unsigned runs = BIT(DZ_STEP_C) | BIT(DZ_STEP_DEBIAN);
    const char *from = r->from ? r->from : "";
    if (strchr(from, '/') || dz_str_ends(dz_str(from), DZ_STR(".doze")))
        return dz_fail(
            err, DZ_EDENIED,
            "from: must be the name of an image; a daemon's build takes no files of its machine");
    for (size_t i = 0; i < r->step_count; i++) {
        const struct dz_step *s = &r->steps[i];
        if (is(s, runs) || s->build)
            return dz_fail(
                err, DZ_EDENIED,
                "line %d, %s: a daemon's build runs no compiler and no script; use doze image build on its machine",
                s->line, s->label);
        if (s->source && !is_below(r->dir, s->source))
            return dz_fail(err, DZ_EDENIED,
                           "line %d, %s: its source is not among the files of the recipe", s->line,
                           s->label);
    }
    return 0;
}

void dz_recipe_release(struct dz_recipe *r)
{
    for (size_t i = 0; i < r->step_count; i++)
        dz_fd_close(&r->steps[i].fd);
    dz_image_release(&r->config);
    dz_arena_release(&r->arena);
    *r = (struct dz_recipe){0};
}
