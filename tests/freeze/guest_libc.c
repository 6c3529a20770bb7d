/* SPDX-License-Identifier: MIT
 *
 * guest_libc.c - a bench program (PROGRAM) inside an ordinary C program: its result
 * is printed, parsed, sorted, searched and matched by wasi-libc. A bench program
 * alone has a handful of loops and functions; with libc around it there are hundreds
 * of different safepoints, in code that nobody wrote for this test.
 */
#define BENCH_NATIVE /* run() is a function like any other */
#define run          bench_run
#include PROGRAM
#undef run

#include <ctype.h>
#include <fnmatch.h>
#include <math.h>
#include <regex.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

static char libc_said[4096];
static size_t libc_used;

#define SAY(...)  \
    (libc_used += \
     (size_t)snprintf(libc_said + libc_used, sizeof libc_said - libc_used, __VA_ARGS__))

static int libc_by_int(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}
static int libc_by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void libc_numbers(int seed)
{
    char part[64], *end;
    double real = seed / 7.0;
    long long wide = 0;
    int back = 0;
    SAY("%d %x %08o %+5d|%-9d|\n", seed, seed, seed & 0777, seed % 1000, seed % 99);
    SAY("%.3f %e %g %a %10.2f\n", real, real, real * 1e-9, real, -real);
    SAY("%lld %llu %c %5.2s\n", seed * 1234567890123LL, (unsigned long long)seed << 33, 'a',
        "text");
    (void)snprintf(part, sizeof part, "%.17g rest %d 0x%x", real, seed, seed);
    SAY("%.6f %ld %lx\n", strtod(part, &end), strtol(end + 5, &end, 10), strtoul(end, NULL, 0));
    (void)sscanf(part, "%*s rest %d %lli", &back, &wide);
    SAY("%d %lld %.4f %.4f %.4f\n", back, wide, pow(real, 0.3), sin(real), fmod(real, 3.0));
    SAY("%.4f %.4f %.4f %.4f\n", exp(real / 1e9), log(fabs(real) + 1), atan2(real, 2), cbrt(real));
}

static void libc_heap(int seed)
{
    int *list[16], *all = NULL;
    size_t count = 0;
    uint32_t state = (uint32_t)seed | 1;
    for (int i = 0; i < 16; i++) {
        list[i] = calloc((size_t)(next_random(&state) % 300 + 1), sizeof *list[i]);
        if (list[i])
            list[i][0] = (int)next_random(&state);
    }
    for (int i = 0; i < 16; i++) {
        all = realloc(all, (count + 1) * sizeof *all);
        if (!all || !list[i])
            abort();
        all[count++] = list[i][0] % 1000;
        if (i % 3)
            free(list[i]);
    }
    qsort(all, count, sizeof *all, libc_by_int);
    int *found = bsearch(&all[5], all, count, sizeof *all, libc_by_int);
    SAY("%d %d %td\n", all[0], all[15], found - all);
    void *big = aligned_alloc(4096, 65536);
    SAY("%d\n", big != NULL);
    free(big);
    free(all);
    for (int i = 0; i < 16; i += 3)
        free(list[i]);
}

static void libc_strings(int seed)
{
    char line[200], *rest = line;
    void *tree = NULL;
    wchar_t wide[64];
    (void)snprintf(line, sizeof line, "key%d=value, other = %d; third=x%xy; \t last", seed % 10,
                   seed, seed);
    SAY("%zu %zu %s %s\n", strspn(line, "eky0123456789"), strcspn(line, ",;"),
        strstr(line, "other"), strrchr(line, '=') ? "yes" : "no");
    SAY("%zu %d\n",
        mbstowcs(wide,
                 "gr\xc3\xb6\xc3\x9f"
                 "er \xe2\x82\xac",
                 64),
        (int)wcslen(wide));
    SAY("%d %d\n", fnmatch("*[0-9]*?alue*", line, 0), strcasecmp("Key", "kEY"));
    for (char *word; (word = strsep(&rest, ",;"));) {
        for (char *p = word; *p; p++)
            *p = (char)toupper((unsigned char)*p);
        (void)tsearch(word, &tree, libc_by_text);
        SAY("%s/", word);
    }
    SAY("%d\n", tfind(line, &tree, libc_by_text) != NULL);
    char *copy = strdup(libc_said);
    if (!copy)
        abort();
    memmove(copy + 3, copy, strlen(copy) - 3);
    SAY("%d %p\n", memcmp(copy, libc_said, 40) > 0, memchr(copy, '\n', 100) ? (void *)16 : NULL);
    free(copy);
}

static void libc_matching(int seed)
{
    static const char *const patterns[] = {"([0-9]+)[^0-9]+([0-9]+)", "^(k|K)ey.*third$",
                                           "x[a-f0-9]{2,8}y|nothing", "(a|b)*c?d+e"};
    char line[100];
    (void)snprintf(line, sizeof line, "key%d=value, x%xy abbabcdde third", seed % 100, seed);
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        regmatch_t m[3];
        regex_t re;
        if (regcomp(&re, patterns[i], REG_EXTENDED | (i % 2 ? REG_ICASE : 0)) != 0)
            abort();
        int rc = regexec(&re, line, 3, m, 0);
        SAY("%d %d..%d\n", rc, rc ? 0 : (int)m[0].rm_so, rc ? 0 : (int)m[0].rm_eo);
        regfree(&re);
    }
}

static void libc_dates(int seed)
{
    time_t t = 1700000000 + seed % 100000000;
    struct tm tm;
    char part[80];
    (void)gmtime_r(&t, &tm);
    (void)strftime(part, sizeof part, "%A %d %B %Y %H:%M:%S %j %U", &tm);
    SAY("%s %d\n", part, (int)(timegm(&tm) - t));
    SAY("%s\n", strptime("2031-05-06 07:08:09", "%Y-%m-%d %H:%M:%S", &tm) ? "parsed" : "not");
    SAY("%d-%d-%d\n", tm.tm_year, tm.tm_mon, tm.tm_mday);
}

__attribute__((export_name("run"))) int run_with_libc(int n)
{
    int seed = bench_run(n);
    libc_numbers(seed);
    libc_heap(seed);
    libc_strings(seed);
    libc_matching(seed);
    libc_dates(seed);
    (void)fwrite(libc_said, 1, libc_used, stdout);
    (void)printf("%d\n", seed);
    (void)fflush(stdout);
    return seed ^ (int)libc_used;
}
