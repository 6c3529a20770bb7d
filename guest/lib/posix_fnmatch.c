/* SPDX-License-Identifier: MIT
 *
 * posix_fnmatch.c - matching of shell patterns.
 *
 * libc's own takes a backslash in brackets for itself, as POSIX once said; shells
 * rely on its quoting there, as everywhere else. Patterns and strings are UTF-8;
 * what is not counts byte by byte. A "*" is tried from its shortest match on, and only the
 * last one is gone back to, so time is at most pattern times string.
 */
#include <fnmatch.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

/* The character at s, 0 at the end, and its length; not UTF-8: a byte, kept apart from
 * characters. */
static wint_t character(const char *s, size_t *len)
{
    mbstate_t state = {0};
    wchar_t c;
    size_t n = *s ? mbrtowc(&c, s, strnlen(s, 4), &state) : 0;

    if (n == 0)
        return 0;
    if (n == (size_t)-1 || n == (size_t)-2) {
        *len = 1;
        return 0x110000 + (unsigned char)*s;
    }
    *len = n;
    return (wint_t)c;
}

static wint_t fold(wint_t c, int flags)
{
    return flags & FNM_CASEFOLD && c < 0x110000 ? towlower(c) : c;
}

/* "[:name:]" at p: its length, and whether c is in it; 0 when it is none. */
static size_t class(const char *p, wint_t c, int flags, int *in)
{
    char name[16];
    const char *end = strstr(p + 2, ":]");

    if (!end || (size_t)(end - p - 2) >= sizeof name)
        return 0;
    memcpy(name, p + 2, (size_t)(end - p - 2));
    name[end - p - 2] = 0;
    wctype_t type = wctype(name);
    if (!type)
        return 0;
    *in |= c < 0x110000 &&
           (iswctype(c, type) ||
            (flags & FNM_CASEFOLD && (iswctype(towlower(c), type) || iswctype(towupper(c), type))));
    return (size_t)(end - p) + 2;
}

/* One end of a range, perhaps quoted, or as "[.x.]" or "[=x=]". Its length, 0 at the end. */
static size_t range_end(const char *p, int flags, wint_t *c)
{
    size_t len;

    if (p[0] == '[' && (p[1] == '.' || p[1] == '=')) {
        *c = character(p + 2, &len);
        if (*c && p[2 + len] == p[1] && p[3 + len] == ']')
            return len + 4;
    }
    size_t quote = p[0] == '\\' && p[1] && !(flags & FNM_NOESCAPE);
    *c = character(p + quote, &len);
    return *c ? quote + len : 0;
}

/* The bracket expression at p: its length and whether c is in it; 0 when nothing ends
 * it, for then the bracket is itself. */
static size_t bracket(const char *p, wint_t c, int flags, int *match)
{
    size_t at = 1;
    int in = 0, not = p[1] == '!' || p[1] == '^';

    at += (size_t)not;
    for (int first = 1; first || p[at] != ']'; first = 0) {
        wint_t from, to;
        size_t n = p[at] == '[' && p[at + 1] == ':' ? class(p + at, c, flags, &in) : 0;
        if (n) {
            at += n;
            continue;
        }
        n = range_end(p + at, flags, &from);
        if (!n || (flags & FNM_PATHNAME && p[at] == '/'))
            return 0;
        at += n;
        to = from;
        if (p[at] == '-' && p[at + 1] && p[at + 1] != ']') {
            n = range_end(p + at + 1, flags, &to);
            if (!n)
                return 0;
            at += n + 1;
        }
        wint_t low = fold(c, flags);
        in |= (from <= c && c <= to) || (fold(from, flags) <= low && low <= fold(to, flags));
    }
    *match = in != not;
    return at + 1;
}

/* One element of the pattern that is no "*" against one character: the lengths of both,
 * or 0. */
static int single(const char *p, size_t *plen, const char *s, size_t *slen, int flags)
{
    size_t len;
    int match;
    wint_t c = character(s, slen);

    if (!c || (*p != '/' && flags & FNM_PATHNAME && c == '/'))
        return 0;
    if (*p == '?') {
        *plen = 1;
        return 1;
    }
    if (*p == '[' && (len = bracket(p, c, flags, &match)) != 0) {
        *plen = len;
        return match;
    }
    size_t quote = *p == '\\' && !(flags & FNM_NOESCAPE) && p[1];
    wint_t want = character(p + quote, &len);
    *plen = quote + len;
    return fold(want, flags) == fold(c, flags);
}

/* Is s a period that only a period in the pattern may match? */
static int leading(const char *start, const char *s, int flags)
{
    return *s == '.' && flags & FNM_PERIOD &&
           (s == start || (flags & FNM_PATHNAME && s[-1] == '/'));
}

static int is_period(const char *p, int flags)
{
    return *p == '.' || (p[0] == '\\' && p[1] == '.' && !(flags & FNM_NOESCAPE));
}

int fnmatch(const char *p, const char *s, int flags)
{
    const char *start = s, *star = NULL, *from = NULL;
    size_t plen, slen;

    for (;;) {
        if (*p == '*') {
            if (leading(start, s, flags))
                return FNM_NOMATCH;
            star = ++p;
            from = s;
            continue;
        }
        if (!*p && (!*s || (flags & FNM_LEADING_DIR && *s == '/')))
            return 0;
        if (*p && *s && !(leading(start, s, flags) && !is_period(p, flags)) &&
            single(p, &plen, s, &slen, flags)) {
            p += plen;
            s += slen;
            continue;
        }
        /* the last star takes one character more, if it may */
        if (!star || !*from || (flags & FNM_PATHNAME && *from == '/'))
            return FNM_NOMATCH;
        character(from, &slen);
        from += slen;
        s = from;
        p = star;
    }
}
