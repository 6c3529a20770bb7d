/* SPDX-License-Identifier: MIT
 *
 * image_dockerfile.c - read a Dockerfile.
 *
 * The format is that of the Dockerfile reference: an instruction and its arguments on a line, "\"
 * at the end of a line continues it, "#" begins a comment line, "<<WORD" a text to the line WORD.
 * There is one stage, and nothing is fetched from a network: what would need more is refused by
 * name.
 *
 *     text ──lines, continuations──> instruction ──$VARIABLES, quotes──> words ──> config or step
 */
#include "image/image_dockerfile.h"

#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "image/image_int.h"

#include <ctype.h>
#include <jansson.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

enum {
    ARGS_MAX = 128,
    SHOWN_MAX = 100, /* bytes of an instruction that messages show */
    HEREDOCS_MAX = 16,
    WORD_MAX = 4096,
    ARENA_MAX = 64 << 20,
};

/* A list of words while it is made. */
struct words {
    const char *p[DZ_IMAGE_WORDS_MAX + 1];
    size_t n;
};

struct reading {
    struct dz_dockerfile *d;
    const struct dz_dockerfile_opts *opts;
    struct dz_err *err;
    struct dz_str rest; /* of the text */
    int next;           /* number of the next line */
    int line;           /* of the instruction */
    char name[24];      /* of the instruction, in capitals */
    bool begun;         /* FROM was read */
    struct dz_buf text; /* the instruction's arguments, without continuations and comments */
    struct dz_buf docs; /* its here-documents, with their last lines */
    int doc_count;
    bool doc_only; /* its arguments are one here-document and nothing else */
    struct words args, env, shell, entrypoint, cmd;
    bool has_entrypoint, shell_entrypoint, has_cmd;
    const char *user, *workdir;
    size_t port_count, note_count;
};

DZ_PRINTF(3, 4) static int wrong(struct reading *r, int code, const char *fmt, ...)
{
    char what[200];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return dz_fail(r->err, code, "%s:%d: %s", r->opts->file, r->line, what);
}

static int no_memory(struct reading *r)
{
    return dz_fail(r->err, DZ_ENOMEM, "%s: out of memory", r->opts->file);
}

static const char *keep_str(struct reading *r, struct dz_str s)
{
    return dz_arena_str(&r->d->arena, s).p;
}

static const char *keep(struct reading *r, const char *text)
{
    return keep_str(r, dz_str(text));
}

static int push(struct reading *r, struct words *w, const char *word)
{
    if (w->n == DZ_IMAGE_WORDS_MAX)
        return wrong(r, DZ_ELIMIT, "%s has more than %d words", r->name, DZ_IMAGE_WORDS_MAX);
    w->p[w->n++] = word;
    w->p[w->n] = NULL;
    return word ? 0 : no_memory(r);
}

static const char *const *own(struct reading *r, const struct words *w)
{
    const char **all = dz_arena_array(&r->d->arena, w->n + 1, sizeof *all);
    if (all)
        memcpy(all, w->p, (w->n + 1) * sizeof *all);
    return all;
}

/* Set the variable of "K=V" in a list. */
static int set_variable(struct reading *r, struct words *list, const char *pair)
{
    const size_t key = strcspn(pair, "=") + 1;
    for (size_t i = 0; i < list->n; i++)
        if (strncmp(list->p[i], pair, key) == 0) {
            list->p[i] = pair;
            return 0;
        }
    return push(r, list, pair);
}

static const char *find_variable(const struct words *list, struct dz_str name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strncmp(list->p[i], name.p, name.n) == 0 && list->p[i][name.n] == '=')
            return list->p[i] + name.n + 1;
    return NULL;
}

/* --- lines --------------------------------------------------------------------------------- */

static bool next_line(struct reading *r, struct dz_str *ret)
{
    if (r->rest.n == 0 || !dz_str_split(&r->rest, '\n', ret))
        return false;
    r->next++;
    if (ret->n > 0 && ret->p[ret->n - 1] == '\r')
        ret->n--;
    return true;
}

static struct dz_str trim_left(struct dz_str s)
{
    while (s.n > 0 && (*s.p == ' ' || *s.p == '\t'))
        s = dz_str_sub(s, 1, SIZE_MAX);
    return s;
}

/* Does the line end in "\"? It is cut off then. */
static bool continues(struct dz_str *line)
{
    size_t n = line->n;
    while (n > 0 && (line->p[n - 1] == ' ' || line->p[n - 1] == '\t'))
        n--;
    if (n == 0 || line->p[n - 1] != '\\')
        return false;
    line->n = n - 1;
    return true;
}

/* "# escape=`": only the usual character is supported. */
static int check_directive(struct reading *r, struct dz_str comment)
{
    comment = trim_left(dz_str_sub(comment, 1, SIZE_MAX));
    if (comment.n < 6 || strncasecmp(comment.p, "escape", 6) != 0)
        return 0;
    comment = dz_str_trim(dz_str_sub(comment, 6, SIZE_MAX));
    if (!dz_str_eat(&comment, DZ_STR("=")) || dz_str_eqz(dz_str_trim(comment), "\\"))
        return 0;
    return wrong(r, DZ_EUNSUPPORTED, "the escape character must be \\");
}

/* Read the lines of a here-document to the line `word`. */
static int read_doc(struct reading *r, struct dz_str word, bool tabs)
{
    struct dz_str line;
    if (++r->doc_count > HEREDOCS_MAX)
        return wrong(r, DZ_ELIMIT, "more than %d here-documents", HEREDOCS_MAX);
    while (next_line(r, &line)) {
        struct dz_str plain = line;
        while (tabs && dz_str_eat(&plain, DZ_STR("\t")))
            ;
        const bool end = plain.n == word.n && memcmp(plain.p, word.p, word.n) == 0;
        if (!end || !r->doc_only)
            dz_buf_addf(&r->docs, "%.*s\n", DZ_STR_ARG(plain));
        if (end)
            return 0;
    }
    return wrong(r, DZ_EINVAL, "the here-document has no end: a line %.*s", DZ_STR_ARG(word));
}

/* Find "<<WORD" outside of quotes, and read what belongs to each. */
static int read_docs(struct reading *r)
{
    struct dz_str all = dz_str_n(r->text.p ? r->text.p : "", r->text.len);
    char quote = 0;
    for (size_t i = 0; i + 2 < all.n; i++) {
        const char c = all.p[i];
        if (quote ? c == quote : c == '\'' || c == '"')
            quote = quote ? 0 : c;
        if (c == '\\' && quote != '\'')
            i++;
        if (quote || c != '<' || all.p[i + 1] != '<')
            continue;
        if (all.p[i + 2] == '<') { /* a here-string of bash */
            i += 2;
            continue;
        }
        size_t at = i + 2;
        const bool tabs = all.p[at] == '-';
        at += tabs;
        const char q = at < all.n && (all.p[at] == '"' || all.p[at] == '\'') ? all.p[at] : 0;
        at += q != 0;
        size_t end = at;
        while (end < all.n && (isalnum((unsigned char)all.p[end]) || strchr("_.-", all.p[end])))
            end++;
        if (end == at || isdigit((unsigned char)all.p[at]))
            continue; /* a shift, or something of the shell's own */
        r->doc_only = dz_str_trim(dz_str_sub(all, 0, i)).n == 0 &&
                      dz_str_trim(dz_str_sub(all, end + (q != 0), SIZE_MAX)).n == 0;
        int rc = read_doc(r, dz_str_sub(all, at, end - at), tabs);
        if (rc < 0)
            return rc;
        i = end - 1 + (q != 0);
    }
    return 0;
}

/* Get the next instruction: 1, 0 at the end. */
static int next_instruction(struct reading *r)
{
    struct dz_str line, word;
    bool more = true;
    size_t n;
    dz_buf_reset(&r->text);
    dz_buf_reset(&r->docs);
    r->doc_count = 0;
    r->doc_only = false;
    do {
        r->line = r->next;
        if (!next_line(r, &line))
            return 0;
        line = trim_left(line);
        if (line.n > 0 && line.p[0] == '#' && !r->begun && check_directive(r, line) < 0)
            return r->err->code;
    } while (dz_str_trim(line).n == 0 || line.p[0] == '#');
    more = continues(&line);
    for (n = 0; n < line.n && isalpha((unsigned char)line.p[n]);)
        n++;
    word = dz_str_sub(line, 0, n);
    if (n == 0 || n >= sizeof r->name || (n < line.n && line.p[n] != ' ' && line.p[n] != '\t'))
        return wrong(r, DZ_EINVAL, "expected an instruction such as RUN");
    (void)snprintf(r->name, sizeof r->name, "%.*s", DZ_STR_ARG(word));
    for (char *p = r->name; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    line = trim_left(dz_str_sub(line, n, SIZE_MAX));
    dz_buf_add(&r->text, line.p, line.n);
    while (more && next_line(r, &line)) {
        struct dz_str bare = trim_left(line);
        if (bare.n == 0 || bare.p[0] == '#')
            continue;
        more = continues(&line);
        dz_buf_add(&r->text, line.p, line.n);
    }
    dz_buf_add(&r->text, "", 0);
    if (r->text.len && memchr(r->text.p, 0, r->text.len))
        return wrong(r, DZ_EINVAL, "a NUL byte");
    int rc =
        strcmp(r->name, "RUN") == 0 || strcmp(r->name, "COPY") == 0 || strcmp(r->name, "ADD") == 0
            ? read_docs(r)
            : 0;
    if (rc == 0 && (r->text.err || r->docs.err))
        rc = wrong(r, DZ_ELIMIT, "%s is too long", r->name);
    return rc < 0 ? rc : 1;
}

/* --- words ------------------------------------------------------------------------------------ */

/* The value of a variable: ENV before ARG. */
static struct dz_str value_of(const struct reading *r, struct dz_str name)
{
    const char *v = find_variable(&r->env, name);
    v = v ? v : find_variable(&r->args, name);
    return dz_str(v ? v : "");
}

static size_t name_length(struct dz_str s)
{
    size_t n = 0;
    while (n < s.n && (isalnum((unsigned char)s.p[n]) || s.p[n] == '_') &&
           (n > 0 || !isdigit((unsigned char)s.p[0])))
        n++;
    return n;
}

/* Replace the variable at the beginning of s, behind "$": its length there, or DZ_E*. */
static int put_variable(struct reading *r, struct dz_str s, struct dz_buf *out)
{
    if (s.n == 0 || s.p[0] != '{') {
        const size_t n = name_length(s);
        const struct dz_str v = value_of(r, dz_str_sub(s, 0, n));
        if (n == 0)
            dz_buf_adds(out, "$");
        else
            dz_buf_add(out, v.p, v.n);
        return (int)n;
    }
    const size_t end = dz_str_find_char(s, '}');
    if (end == DZ_STR_NONE)
        return wrong(r, DZ_EINVAL, "${ without }");
    const struct dz_str in = dz_str_sub(s, 1, end - 1);
    const size_t n = name_length(in);
    struct dz_str v = value_of(r, dz_str_sub(in, 0, n)), how = dz_str_sub(in, n, SIZE_MAX);
    if (n > 0 && dz_str_eat(&how, DZ_STR(":-")))
        v = v.n ? v : how;
    else if (n > 0 && dz_str_eat(&how, DZ_STR(":+")))
        v = v.n ? how : v;
    else if (n == 0 || how.n > 0)
        return wrong(r, DZ_EUNSUPPORTED, "${%.*s}: only ${NAME}, ${NAME:-X} and ${NAME:+X}",
                     DZ_STR_ARG(in));
    if (memchr(v.p, '$', v.n) && v.p == how.p)
        return wrong(r, DZ_EUNSUPPORTED, "${%.*s}: a variable in a variable", DZ_STR_ARG(in));
    dz_buf_add(out, v.p, v.n);
    return (int)end + 1;
}

/* Append the next word to out, without its quotes: 1; 0: there is none. whole: all that is left is
 * one word. */
static int next_word(struct reading *r, struct dz_str *rest, bool whole, struct dz_buf *out)
{
    char quote = 0;
    size_t i = 0;
    *rest = trim_left(*rest);
    const struct dz_str s = whole ? dz_str_trim(*rest) : *rest;
    if (s.n == 0)
        return 0;
    for (; i < s.n; i++) {
        const char c = s.p[i];
        if (!quote && !whole && (c == ' ' || c == '\t'))
            break;
        if (quote ? c == quote : c == '\'' || c == '"') {
            quote = quote ? 0 : c;
        } else if (c == '\\' && quote != '\'' && i + 1 < s.n) {
            if (quote && !strchr("\"$\\", s.p[i + 1]))
                dz_buf_adds(out, "\\");
            dz_buf_add(out, s.p + ++i, 1);
        } else if (c == '$' && quote != '\'') {
            int n = put_variable(r, dz_str_sub(s, i + 1, SIZE_MAX), out);
            if (n < 0)
                return n;
            i += (size_t)n;
        } else {
            dz_buf_add(out, &c, 1);
        }
    }
    *rest = dz_str_sub(*rest, i, SIZE_MAX);
    if (quote)
        return wrong(r, DZ_EINVAL, "%s: a quote without its end", r->name);
    return out->err ? wrong(r, DZ_ELIMIT, "%s: a word is too long", r->name) : 1;
}

/* Take the next word: 1, *ret is kept; 0: none. */
static int take_word(struct reading *r, struct dz_str *rest, bool whole, const char **ret)
{
    DZ_AUTO(dz_buf_release) struct dz_buf word = DZ_BUF_INIT(DZ_DOCKERFILE_BYTES_MAX);
    int rc = next_word(r, rest, whole, &word);
    if (rc > 0 && !(*ret = keep_str(r, dz_str_n(word.p ? word.p : "", word.len))))
        return no_memory(r);
    return rc;
}

static struct dz_str arguments(const struct reading *r)
{
    return dz_str_n(r->text.p ? r->text.p : "", r->text.len);
}

/* A setting that is one text, and becomes a line of the image's configuration. */
static int take_setting(struct reading *r, const char **ret)
{
    struct dz_str rest = arguments(r);
    const char *text = "";
    int rc = take_word(r, &rest, true, &text);
    if (rc < 0)
        return rc;
    if (!dz_image_text_ok(dz_str(text)))
        return wrong(r, DZ_EINVAL, "%s needs a value, without control characters", r->name);
    *ret = text;
    return 0;
}

/* An array of texts in JSON: 1; 0: the arguments are something else. */
static int take_json(struct reading *r, struct dz_str text, struct words *ret)
{
    text = dz_str_trim(text);
    if (text.n == 0 || text.p[0] != '[')
        return 0;
    json_t *all = json_loadb(text.p, text.n, 0, NULL), *v;
    size_t i;
    int rc = json_is_array(all);
    json_array_foreach(all, i, v) rc = rc && json_is_string(v);
    json_array_foreach(all, i, v)
    {
        if (rc > 0 && push(r, ret, keep(r, json_string_value(v))) < 0)
            rc = r->err->code;
    }
    json_decref(all);
    return rc;
}

/* --- instructions ------------------------------------------------------------------------------
 */

static int note(struct reading *r, const char *what)
{
    char text[200];
    (void)snprintf(text, sizeof text, "%s:%d: %s", r->opts->file, r->line, what);
    if (r->note_count < DZ_DOCKERFILE_NOTES_MAX)
        r->d->notes[r->note_count++] = keep(r, text);
    return 0;
}

static const char *build_arg(const struct reading *r, struct dz_str name)
{
    for (size_t i = 0; r->opts->build_args && r->opts->build_args[i]; i++) {
        const char *pair = r->opts->build_args[i];
        if (strncmp(pair, name.p, name.n) == 0 && pair[name.n] == '=')
            return pair;
    }
    return NULL;
}

/* ARG NAME[=DEFAULT]... */
static int do_arg(struct reading *r)
{
    struct dz_str rest = arguments(r);
    const char *word;
    int rc, count = 0;
    for (; (rc = take_word(r, &rest, false, &word)) > 0; count++) {
        const struct dz_str name = dz_str_n(word, strcspn(word, "="));
        const char *given = build_arg(r, name);
        if (name.n == 0 || name_length(name) != name.n)
            return wrong(r, DZ_EINVAL, "ARG: %.60s is not the name of a variable", word);
        if (given)
            rc = set_variable(r, &r->args, keep(r, given));
        else if (word[name.n] == '=')
            rc = set_variable(r, &r->args, word);
        if (rc < 0)
            return rc;
    }
    return rc < 0 ? rc : count ? 0 : wrong(r, DZ_EINVAL, "ARG needs a name");
}

static int set_env(struct reading *r, struct dz_str name, const char *value)
{
    DZ_AUTO(dz_buf_release) struct dz_buf pair = DZ_BUF_INIT(DZ_DOCKERFILE_BYTES_MAX);
    dz_buf_addf(&pair, "%.*s=%s", DZ_STR_ARG(name), value);
    if (name.n == 0 || pair.err || !dz_image_text_ok(dz_str_n(pair.p, pair.len)))
        return wrong(r, DZ_EINVAL, "ENV needs NAME=VALUE, without control characters");
    return set_variable(r, &r->env, keep(r, pair.p));
}

/* ENV NAME=VALUE... or ENV NAME VALUE */
static int do_env(struct reading *r)
{
    const struct dz_str all = arguments(r);
    struct dz_str rest = all, name;
    struct words pairs = {.n = 0};
    const char *word;
    int rc;
    const size_t space = strcspn(all.p, " \t"), equals = strcspn(all.p, "=");
    if (space < equals) {
        name = dz_str_sub(all, 0, space);
        rest = dz_str_sub(all, space, SIZE_MAX);
        rc = take_word(r, &rest, true, &word);
        return rc < 0    ? rc
               : rc == 0 ? wrong(r, DZ_EINVAL, "ENV needs a value")
                         : set_env(r, name, word);
    }
    while ((rc = take_word(r, &rest, false, &word)) > 0)
        if (push(r, &pairs, word) < 0)
            return r->err->code;
    for (size_t i = 0; rc == 0 && i < pairs.n; i++) { /* all see the values from before the line */
        name = dz_str_n(pairs.p[i], strcspn(pairs.p[i], "="));
        rc = pairs.p[i][name.n] ? set_env(r, name, pairs.p[i] + name.n + 1)
                                : wrong(r, DZ_EINVAL, "ENV needs NAME=VALUE");
    }
    return rc < 0 ? rc : pairs.n ? 0 : wrong(r, DZ_EINVAL, "ENV needs NAME=VALUE");
}

static int begin_stage(struct reading *r, const char *name)
{
    const struct dz_image *base = NULL;
    struct dz_image *c = &r->d->config;
    struct dz_err why = {0};
    int rc = r->opts->from(r->opts->arg, name, &base, &why);
    if (rc < 0)
        return wrong(r, rc, "FROM %.60s: %.120s", name, why.msg);
    if (base->kind != DZ_IMAGE_LINUX)
        return wrong(r, DZ_EUNSUPPORTED, "FROM %.60s: a Dockerfile needs an image of kind linux",
                     name);
    *c = *base;
    c->arena = (struct dz_arena)DZ_ARENA_INIT(0);
    c->machine_bytes = 0;
    r->user = base->user;
    r->workdir = base->workdir;
    for (size_t i = 0; rc == 0 && base->env[i]; i++)
        rc = push(r, &r->env, base->env[i]);
    while (r->port_count < DZ_IMAGE_PORTS_MAX && c->port[r->port_count])
        r->port_count++;
    r->args.n = 0; /* those before FROM are for FROM */
    r->begun = true;
    return rc;
}

/* FROM [--platform=P] IMAGE [AS NAME] */
static int do_from(struct reading *r)
{
    struct dz_str rest = arguments(r);
    const char *word = "", *as = NULL, *stage = NULL, *more = NULL;
    if (r->begun)
        return wrong(r, DZ_EUNSUPPORTED,
                     "a second FROM: builds of several stages are not supported");
    int rc = take_word(r, &rest, false, &word);
    if (rc > 0 && strncmp(word, "--platform=", 11) == 0) {
        if (strcmp(word + 11, "linux/amd64") != 0)
            return wrong(r, DZ_EUNSUPPORTED, "FROM %.60s: only linux/amd64", word);
        rc = take_word(r, &rest, false, &word);
    }
    if (rc > 0)
        rc = take_word(r, &rest, false, &as);
    if (rc > 0 && (strcasecmp(as, "as") != 0 || take_word(r, &rest, false, &stage) <= 0 ||
                   take_word(r, &rest, false, &more) != 0))
        return wrong(r, DZ_EINVAL, "FROM needs IMAGE or IMAGE AS NAME");
    if (rc < 0)
        return rc;
    if (!word[0] || word[0] == '-')
        return wrong(r, DZ_EINVAL, "FROM needs an image");
    if (strcmp(word, "scratch") == 0)
        return wrong(r, DZ_EUNSUPPORTED,
                     "FROM scratch is not supported: write a recipe (doze image build RECIPE)");
    return begin_stage(r, word);
}

static struct dz_docker_step *new_step(struct reading *r, enum dz_docker_kind kind)
{
    char shown[SHOWN_MAX + 32];
    struct dz_dockerfile *d = r->d;
    if (d->step_count == DZ_DOCKERFILE_STEPS_MAX) {
        (void)wrong(r, DZ_ELIMIT, "more than %d steps", DZ_DOCKERFILE_STEPS_MAX);
        return NULL;
    }
    (void)snprintf(shown, sizeof shown, "%s %.*s", r->name, SHOWN_MAX, r->text.p ? r->text.p : "");
    for (char *p = shown; *p; p++)
        *p = (unsigned char)*p < ' ' || *p == 0x7f ? ' ' : *p;
    struct dz_docker_step *s = &d->steps[d->step_count++];
    *s = (struct dz_docker_step){.kind = kind, .line = r->line, .shown = keep(r, shown)};
    return s;
}

/* The words by which the shell runs a text. */
static int shell_words(struct reading *r, const char *text, struct words *ret)
{
    int rc = 0;
    *ret = r->shell;
    if (!text[0])
        rc = wrong(r, DZ_EINVAL, "%s needs a command", r->name);
    return rc < 0 ? rc : push(r, ret, text);
}

/* The text of a command with its here-documents. */
static const char *command_text(struct reading *r, struct dz_str text)
{
    DZ_AUTO(dz_buf_release) struct dz_buf all = DZ_BUF_INIT(2 * DZ_DOCKERFILE_BYTES_MAX);
    if (r->doc_only && r->doc_count == 1)
        return keep_str(r, dz_str_n(r->docs.p ? r->docs.p : "", r->docs.len));
    dz_buf_add(&all, text.p, text.n);
    if (r->doc_count)
        dz_buf_addf(&all, "\n%s", r->docs.p ? r->docs.p : "");
    return all.err ? NULL : keep_str(r, dz_str_n(all.p ? all.p : "", all.len));
}

static int do_run(struct reading *r)
{
    struct words argv = {.n = 0}, env;
    struct dz_str text = arguments(r);
    if (dz_str_starts(text, DZ_STR("--")))
        return wrong(r, DZ_EUNSUPPORTED, "RUN %.*s is not supported", (int)strcspn(text.p, " \t="),
                     text.p);
    int rc = r->doc_count ? 0 : take_json(r, text, &argv);
    if (rc == 0) {
        const char *command = command_text(r, text);
        if (command && r->doc_only && strncmp(command, "#!", 2) == 0)
            return wrong(r, DZ_EUNSUPPORTED,
                         "RUN: a here-document that begins with #! is not supported");
        rc = command ? shell_words(r, command, &argv) : no_memory(r);
    }
    struct dz_docker_step *s = rc < 0 ? NULL : new_step(r, DZ_DOCKER_RUN);
    if (!s)
        return r->err->code;
    if (argv.n == 0)
        return wrong(r, DZ_EINVAL, "RUN needs a command");
    env = r->env; /* an ARG is a variable of RUN, unless ENV has the name */
    for (size_t i = 0; rc >= 0 && i < r->args.n; i++)
        if (!find_variable(&r->env, dz_str_n(r->args.p[i], strcspn(r->args.p[i], "="))))
            rc = push(r, &env, r->args.p[i]);
    s->argv = own(r, &argv);
    s->env = own(r, &env);
    s->user = r->user;
    s->workdir = r->workdir;
    return rc < 0 ? rc : s->argv && s->env ? 0 : no_memory(r);
}

/* An absolute path in the image, with the "/" at its end kept. */
static int absolute(struct reading *r, const char *path, const char **ret)
{
    char clean[DZ_PATH_MAX], whole[DZ_PATH_MAX + 1];
    const size_t n = strlen(path);
    const bool dir = n == 0 || path[n - 1] == '/' || strcmp(path, ".") == 0 ||
                     (n > 1 && strcmp(path + n - 2, "/.") == 0);
    if (dz_path_resolve(dz_str(r->workdir ? r->workdir : "/"), dz_str(path), clean, NULL) < 0)
        return wrong(r, DZ_EINVAL, "%s: the path %.60s is invalid", r->name, path);
    (void)snprintf(whole, sizeof whole, "%s%s", clean, dir && strcmp(clean, "/") != 0 ? "/" : "");
    *ret = keep(r, whole);
    return *ret ? 0 : no_memory(r);
}

static int do_workdir(struct reading *r)
{
    const char *path = NULL, *to = NULL;
    char clean[DZ_PATH_MAX];
    int rc = take_setting(r, &path);
    if (rc < 0)
        return rc;
    if (dz_path_resolve(dz_str(r->workdir ? r->workdir : "/"), dz_str(path), clean, NULL) < 0)
        return wrong(r, DZ_EINVAL, "WORKDIR: the path %.60s is invalid", path);
    to = keep(r, clean);
    struct dz_docker_step *s = to ? new_step(r, DZ_DOCKER_WORKDIR) : NULL;
    if (!s)
        return to ? r->err->code : no_memory(r);
    s->to = r->workdir = to;
    return 0;
}

static int copy_flag(struct reading *r, struct dz_docker_step *s, const char *flag)
{
    uint32_t mode = 0;
    if (strncmp(flag, "--chown=", 8) == 0 && flag[8]) {
        s->chown = flag + 8;
        return 0;
    }
    if (strcmp(flag, "--link") == 0)
        return 0; /* how docker makes its layers */
    if (strncmp(flag, "--from=", 7) == 0)
        return wrong(r, DZ_EUNSUPPORTED, "%s --from: builds of several stages are not supported",
                     r->name);
    if (strncmp(flag, "--chmod=", 8) != 0)
        return wrong(r, DZ_EUNSUPPORTED, "%s %.*s is not supported", r->name,
                     (int)strcspn(flag, "="), flag);
    const size_t n = strspn(flag + 8, "01234567");
    for (size_t i = 0; i < n && i < 5; i++)
        mode = mode << 3 | (uint32_t)(flag[8 + i] - '0');
    if (n == 0 || n > 5 || flag[8 + n] || mode > 07777 || mode == 0)
        return wrong(r, DZ_EUNSUPPORTED, "%s --chmod must be octal, such as 755", r->name);
    s->mode = mode;
    return 0;
}

static int copy_words(struct reading *r, struct dz_docker_step *s, struct words *w)
{
    struct dz_str rest = arguments(r);
    const char *word;
    int rc = 0;
    while (rc == 0 && dz_str_starts(trim_left(rest), DZ_STR("--"))) {
        rc = take_word(r, &rest, false, &word);
        rc = rc < 0 ? rc : copy_flag(r, s, word);
    }
    if (rc == 0)
        rc = take_json(r, rest, w);
    for (size_t i = 0; rc > 0 && i < w->n; i++)
        if (strchr(w->p[i], '$'))
            rc = wrong(r, DZ_EUNSUPPORTED, "%s: a variable in an array is not supported", r->name);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    while ((rc = take_word(r, &rest, false, &word)) > 0)
        if (push(r, w, word) < 0)
            return r->err->code;
    return rc;
}

/* COPY [FLAGS] SOURCE... TO, or as an array in JSON; ADD likewise */
static int do_copy(struct reading *r)
{
    struct words w = {.n = 0};
    struct dz_docker_step *s = new_step(r, DZ_DOCKER_COPY);
    if (!s)
        return r->err->code;
    if (r->doc_count)
        return wrong(r, DZ_EUNSUPPORTED, "%s of a here-document is not supported; use RUN",
                     r->name);
    s->add = strcmp(r->name, "ADD") == 0;
    int rc = copy_words(r, s, &w);
    if (rc < 0)
        return rc;
    if (w.n < 2)
        return wrong(r, DZ_EINVAL, "%s needs a source and a target", r->name);
    for (size_t i = 0; i + 1 < w.n; i++)
        if (strstr(w.p[i], "://") || strncmp(w.p[i], "git@", 4) == 0)
            return wrong(r, DZ_EUNSUPPORTED, "%s of a URL is not supported", r->name);
    rc = absolute(r, w.p[--w.n], &s->to);
    w.p[w.n] = NULL;
    s->source_count = w.n;
    s->sources = own(r, &w);
    if (rc == 0 && w.n > 1 && s->to[strlen(s->to) - 1] != '/')
        rc = wrong(r, DZ_EINVAL, "%s of several sources needs a target that ends in /", r->name);
    return rc < 0 ? rc : s->sources ? 0 : no_memory(r);
}

static int do_user(struct reading *r)
{
    return take_setting(r, &r->user);
}

static int do_stopsignal(struct reading *r)
{
    const char *text = NULL;
    int rc = take_setting(r, &text);
    if (rc < 0)
        return rc;
    r->d->config.stop_signal = dz_image_signal_parse(dz_str(text));
    return r->d->config.stop_signal ? 0
                                    : wrong(r, DZ_EINVAL, "STOPSIGNAL: %.30s is no signal", text);
}

static int do_expose(struct reading *r)
{
    struct dz_str rest = arguments(r);
    struct dz_image *c = &r->d->config;
    char port[DZ_IMAGE_PORT_TEXT];
    const char *word;
    int rc, count = 0;
    for (; (rc = take_word(r, &rest, false, &word)) > 0; count++) {
        size_t i = 0;
        if (!dz_image_port_parse(dz_str(word), port))
            return wrong(r, DZ_EUNSUPPORTED, "EXPOSE: %.30s is not a port", word);
        while (i < r->port_count && strcmp(c->port[i], port) != 0)
            i++;
        if (i == DZ_IMAGE_PORTS_MAX)
            return wrong(r, DZ_ELIMIT, "more than %d ports", DZ_IMAGE_PORTS_MAX);
        if (i == r->port_count)
            c->port[r->port_count++] = keep(r, port);
    }
    return rc < 0 ? rc : count ? 0 : wrong(r, DZ_EINVAL, "EXPOSE needs a port");
}

static int do_shell(struct reading *r)
{
    struct words w = {.n = 0};
    int rc = take_json(r, arguments(r), &w);
    if (rc < 0)
        return rc;
    if (w.n == 0)
        return wrong(r, DZ_EINVAL, "SHELL needs an array such as [\"/bin/bash\", \"-c\"]");
    r->shell = w;
    return 0;
}

/* The words of CMD or ENTRYPOINT. 1: given by a text for the shell. */
static int take_command(struct reading *r, struct words *ret)
{
    struct words w = {.n = 0};
    const struct dz_str all = dz_str_trim(arguments(r));
    int rc = take_json(r, all, &w);
    const bool shell = rc == 0;
    if (shell) {
        const char *text = keep_str(r, all);
        rc = text ? shell_words(r, text, &w) : no_memory(r);
    }
    for (size_t i = 0; rc >= 0 && i < w.n; i++)
        if (!dz_image_text_ok(dz_str(w.p[i])))
            rc = wrong(r, DZ_EUNSUPPORTED,
                       "%s: a word that is empty or has a control character is not supported",
                       r->name);
    if (rc < 0)
        return rc;
    *ret = w;
    return shell;
}

static int do_cmd(struct reading *r)
{
    int rc = take_command(r, &r->cmd);
    r->has_cmd = true;
    return rc < 0 ? rc : 0;
}

static int do_entrypoint(struct reading *r)
{
    int rc = take_command(r, &r->entrypoint);
    r->has_entrypoint = true;
    r->shell_entrypoint = rc > 0;
    return rc < 0 ? rc : 0;
}

static int do_label(struct reading *r)
{
    struct dz_str rest = arguments(r);
    const char *word;
    int rc;
    while ((rc = take_word(r, &rest, false, &word)) > 0)
        ;
    return rc < 0 ? rc : note(r, "labels are not kept");
}

static int do_maintainer(struct reading *r)
{
    return note(r, "the maintainer is not kept");
}

static const struct {
    const char *name;
    int (*run)(struct reading *r); /* NULL: not supported */
    const char *instead;
} instructions[] = {
    {"RUN", do_run, NULL},
    {"COPY", do_copy, NULL},
    {"ADD", do_copy, NULL},
    {"ENV", do_env, NULL},
    {"WORKDIR", do_workdir, NULL},
    {"USER", do_user, NULL},
    {"CMD", do_cmd, NULL},
    {"ENTRYPOINT", do_entrypoint, NULL},
    {"EXPOSE", do_expose, NULL},
    {"STOPSIGNAL", do_stopsignal, NULL},
    {"SHELL", do_shell, NULL},
    {"LABEL", do_label, NULL},
    {"MAINTAINER", do_maintainer, NULL},
    {"HEALTHCHECK", NULL, "doze does not watch commands"},
    {"ONBUILD", NULL, "write its instruction into the Dockerfile of the image above"},
    {"VOLUME", NULL, "all files of a sandbox are kept"},
};

static int do_instruction(struct reading *r)
{
    if (strcmp(r->name, "ARG") == 0)
        return do_arg(r);
    if (strcmp(r->name, "FROM") == 0)
        return do_from(r);
    for (size_t i = 0; i < DZ_ARRAY_LEN(instructions); i++) {
        if (strcmp(r->name, instructions[i].name) != 0)
            continue;
        if (!instructions[i].run)
            return wrong(r, DZ_EUNSUPPORTED, "%s is not supported: %s", r->name,
                         instructions[i].instead);
        if (!r->begun)
            return wrong(r, DZ_EINVAL, "%s before FROM", r->name);
        return instructions[i].run(r);
    }
    return wrong(r, DZ_EINVAL, "%s is not an instruction of a Dockerfile", r->name);
}

/* --- the whole ---------------------------------------------------------------------------------
 */

/* ENTRYPOINT and CMD together are the default command. One that the shell gets as a text takes no
 * words. Without either, the command is that of the image below. */
static int join_command(struct reading *r)
{
    struct dz_image *c = &r->d->config;
    struct words all = r->entrypoint;
    int rc = 0;
    if (!r->has_entrypoint && !r->has_cmd)
        return 0;
    for (size_t i = 0; rc == 0 && r->has_cmd && !r->shell_entrypoint && i < r->cmd.n; i++)
        rc = push(r, &all, r->cmd.p[i]);
    memset(c->entry, 0, sizeof c->entry);
    memcpy(c->entry, all.p, all.n * sizeof *all.p);
    return rc;
}

static int read_all(struct reading *r)
{
    int rc = push(r, &r->shell, "/bin/sh");
    if (rc == 0)
        rc = push(r, &r->shell, "-c");
    while (rc == 0 && (rc = next_instruction(r)) > 0)
        rc = do_instruction(r);
    if (rc == 0 && !r->begun)
        rc = wrong(r, DZ_EINVAL, "there is no FROM");
    if (rc == 0)
        rc = join_command(r);
    if (rc < 0)
        return rc;
    struct dz_image *c = &r->d->config;
    memset(c->env, 0, sizeof c->env);
    memcpy(c->env, r->env.p, r->env.n * sizeof *r->env.p);
    c->user = r->user;
    c->workdir = r->workdir;
    return r->d->arena.err ? no_memory(r) : 0;
}

int dz_dockerfile_read(struct dz_str text, const struct dz_dockerfile_opts *opts,
                       struct dz_dockerfile *ret, struct dz_err *err)
{
    struct dz_err own = {0};
    struct reading *r = dz_zalloc(sizeof *r);
    err = err ? err : &own;
    *ret = (struct dz_dockerfile){.arena = DZ_ARENA_INIT(ARENA_MAX), .file = opts->file};
    if (!r)
        return dz_fail(err, DZ_ENOMEM, "%s: out of memory", opts->file);
    r->d = ret;
    r->opts = opts;
    r->err = err;
    r->rest = text;
    r->next = r->line = 1;
    r->text = (struct dz_buf)DZ_BUF_INIT(DZ_DOCKERFILE_BYTES_MAX);
    r->docs = (struct dz_buf)DZ_BUF_INIT(DZ_DOCKERFILE_BYTES_MAX);
    int rc = text.n > DZ_DOCKERFILE_BYTES_MAX ? dz_fail(err, DZ_ELIMIT, "%s has more than %d bytes",
                                                        opts->file, DZ_DOCKERFILE_BYTES_MAX)
                                              : read_all(r);
    dz_buf_release(&r->text);
    dz_buf_release(&r->docs);
    dz_free(r);
    if (rc < 0)
        dz_dockerfile_release(ret);
    return rc < 0 ? rc : 0;
}

void dz_dockerfile_release(struct dz_dockerfile *d)
{
    dz_arena_release(&d->arena);
}
