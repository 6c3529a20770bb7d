/* SPDX-License-Identifier: MIT
 *
 * posix_wordexp.c - wordexp by /bin/sh, which prints the words with NULs behind.
 *
 * What would end the words and begin a command is refused before the shell sees
 * it: | & ; < > ( ) { } and newline outside quotes, and with WRDE_NOCMD every
 * command substitution.
 */
#include "posix_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

/* 0, or why these are no words. */
static int check(const char *s, int no_commands)
{
    int quote = 0, depth = 0; /* of $( or ${ */

    for (; *s; s++) {
        if (quote == '\'') {
            quote = *s == '\'' ? 0 : quote;
        } else if (*s == '\\') {
            if (!*++s)
                return WRDE_SYNTAX;
        } else if (*s == '`' || (s[0] == '$' && s[1] == '(' && s[2] != '(')) {
            if (no_commands)
                return WRDE_CMDSUB;
            if (*s == '$')
                depth++, s++;
        } else if (s[0] == '$' && (s[1] == '{' || s[1] == '(')) {
            depth += s[1] == '(' ? 2 : 1;
            s += s[1] == '(' ? 2 : 1;
        } else if (*s == '"' || (*s == '\'' && !quote)) {
            quote = quote == *s ? 0 : *s;
        } else if ((*s == ')' || *s == '}') && depth) {
            depth--;
        } else if (!quote && !depth && strchr("|&;<>(){}\n", *s)) {
            return WRDE_BADCHAR;
        }
    }
    return quote || depth ? WRDE_SYNTAX : 0;
}

/* All that the shell printed, in *ret (malloc), its length; or -1. */
static ssize_t run(const char *words, int flags, char **ret)
{
    static const char format[] = "%sset %s %s\nfor w do printf '%%s\\000' \"$w\"; done";
    char *command, *text = NULL;
    size_t size = 0, used = 0, n;
    FILE *f;

    if (asprintf(&command, format, flags & WRDE_SHOWERR ? "" : "exec 2>/dev/null\n",
                 flags & WRDE_UNDEF ? "-u --" : "--", words) < 0)
        return -1;
    f = popen(command, "re");
    free(command);
    if (!f)
        return -1;
    do {
        if (size - used < 1024) {
            char *bigger = realloc(text, size += 4096);
            if (!bigger)
                break;
            text = bigger;
        }
        n = fread(text + used, 1, size - used, f);
        used += n;
    } while (n);
    if (pclose(f) != 0 || n) {
        free(text);
        return n ? -1 : -2;
    }
    *ret = text;
    return (ssize_t)used;
}

/* The words of text[0..size) behind those that w has. */
static int add_words(wordexp_t *w, const char *text, size_t size, size_t offs)
{
    size_t count = 0, at = offs + w->we_wordc;

    for (size_t i = 0; i < size; i++)
        count += text[i] == 0;
    char **v = realloc(w->we_wordv, (at + count + 1) * sizeof *v);
    if (!v)
        return WRDE_NOSPACE;
    if (!w->we_wordv)
        memset(v, 0, offs * sizeof *v);
    w->we_wordv = v;
    v[at] = NULL;
    for (; count; count--, text += strlen(text) + 1) {
        v[at] = strdup(text);
        if (!v[at])
            return WRDE_NOSPACE;
        v[++at] = NULL;
        w->we_wordc++;
    }
    return 0;
}

int wordexp(const char *words, wordexp_t *w, int flags)
{
    char *text = NULL;
    int e = check(words, flags & WRDE_NOCMD);
    size_t offs;

    if (flags & WRDE_REUSE)
        wordfree(w);
    if (!(flags & WRDE_APPEND)) {
        w->we_wordc = 0;
        w->we_wordv = NULL;
    }
    if (!(flags & WRDE_DOOFFS))
        w->we_offs = 0;
    if (e)
        return e;
    offs = w->we_offs;
    ssize_t n = run(words, flags, &text);
    if (n < 0)
        return n == -1 ? WRDE_NOSPACE : flags & WRDE_UNDEF ? WRDE_BADVAL : WRDE_SYNTAX;
    e = add_words(w, text, (size_t)n, offs);
    free(text);
    return e;
}

void wordfree(wordexp_t *w)
{
    if (w->we_wordv)
        for (size_t i = 0; i < w->we_wordc; i++)
            free(w->we_wordv[w->we_offs + i]);
    free(w->we_wordv);
    w->we_wordv = NULL;
    w->we_wordc = 0;
}
