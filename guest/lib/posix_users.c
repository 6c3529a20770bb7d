/* SPDX-License-Identifier: MIT
 *
 * posix_users.c - the tables of users and groups in /etc.
 *
 * One reader for each table fills a caller's buffer from one line; the functions
 * with static results have a buffer of their own. A line that is too long or has
 * too few fields is passed over.
 */
#include "posix_int.h"

#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *passwd_file, *group_file;

/* The text up to the next separator, which becomes NUL; *s moves behind it. */
static char *field(char **s, char sep)
{
    char *p = *s, *e = strchrnul(p, sep);

    *s = *e ? e + 1 : e;
    *e = 0;
    return p;
}

/* The next line of *f, opened when need be, that has all its fields. 1, 0 at the
 * end, ERANGE when one does not fit: its rest is then passed over. */
static int next_line(FILE **f, const char *path, unsigned fields, char *buf, size_t size)
{
    if (!*f)
        *f = fopen(path, "re");
    while (*f && fgets(buf, (int)size, *f)) {
        size_t n = strlen(buf), colons = 0;
        if (n && buf[n - 1] == '\n') {
            buf[n - 1] = 0;
        } else if (n + 1 == size) {
            int c;
            while ((c = getc(*f)) != EOF && c != '\n')
                ;
            return ERANGE;
        }
        for (char *s = buf; *s; s++)
            colons += *s == ':';
        if (*buf != '#' && *buf != ':' && colons == fields - 1)
            return 1;
    }
    return 0;
}

static int read_passwd(struct passwd *p, char *buf, size_t size)
{
    int r = next_line(&passwd_file, "/etc/passwd", 7, buf, size);
    char *s = buf;

    if (r != 1)
        return r;
    p->pw_name = field(&s, ':');
    p->pw_passwd = field(&s, ':');
    p->pw_uid = (uid_t)strtoul(field(&s, ':'), 0, 10);
    p->pw_gid = (gid_t)strtoul(field(&s, ':'), 0, 10);
    p->pw_gecos = field(&s, ':');
    p->pw_dir = field(&s, ':');
    p->pw_shell = field(&s, ':');
    return 1;
}

/* Members' pointers stand behind the line, in the same buffer. */
static int read_group(struct group *g, char *buf, size_t size)
{
    int r = next_line(&group_file, "/etc/group", 4, buf, size);
    char *s = buf, *end, *member;

    if (r != 1)
        return r;
    size_t used = strlen(buf) + 1;
    g->gr_name = field(&s, ':');
    g->gr_passwd = field(&s, ':');
    g->gr_gid = (gid_t)strtoul(field(&s, ':'), 0, 10);
    used = (used + sizeof(char *) - 1) & ~(sizeof(char *) - 1);
    g->gr_mem = (char **)(void *)(buf + used);
    end = buf + size;
    size_t n = 0;
    while (*s) {
        member = field(&s, ',');
        if ((char *)(g->gr_mem + n + 2) > end)
            return ERANGE;
        if (*member)
            g->gr_mem[n++] = member;
    }
    if ((char *)(g->gr_mem + n + 1) > end)
        return ERANGE;
    g->gr_mem[n] = 0;
    return 1;
}

void endpwent(void)
{
    if (passwd_file)
        fclose(passwd_file);
    passwd_file = 0;
}

void setpwent(void)
{
    endpwent();
}

void endgrent(void)
{
    if (group_file)
        fclose(group_file);
    group_file = 0;
}

void setgrent(void)
{
    endgrent();
}

/* By name, or by number when the name is null. */
static int find_passwd(const char *name, uid_t uid, struct passwd *p, char *buf, size_t size)
{
    FILE *kept = passwd_file;
    int r;

    passwd_file = 0;
    while ((r = read_passwd(p, buf, size)) == 1)
        if (name ? strcmp(p->pw_name, name) == 0 : p->pw_uid == uid)
            break;
    endpwent();
    passwd_file = kept;
    return r;
}

static int find_group(const char *name, gid_t gid, struct group *g, char *buf, size_t size)
{
    FILE *kept = group_file;
    int r;

    group_file = 0;
    while ((r = read_group(g, buf, size)) == 1)
        if (name ? strcmp(g->gr_name, name) == 0 : g->gr_gid == gid)
            break;
    endgrent();
    group_file = kept;
    return r;
}

int getpwnam_r(const char *name, struct passwd *p, char *buf, size_t size, struct passwd **ret)
{
    int r = find_passwd(name, 0, p, buf, size);

    *ret = r == 1 ? p : 0;
    return r == ERANGE ? ERANGE : 0;
}

int getpwuid_r(uid_t uid, struct passwd *p, char *buf, size_t size, struct passwd **ret)
{
    int r = find_passwd(0, uid, p, buf, size);

    *ret = r == 1 ? p : 0;
    return r == ERANGE ? ERANGE : 0;
}

int getgrnam_r(const char *name, struct group *g, char *buf, size_t size, struct group **ret)
{
    int r = find_group(name, 0, g, buf, size);

    *ret = r == 1 ? g : 0;
    return r == ERANGE ? ERANGE : 0;
}

int getgrgid_r(gid_t gid, struct group *g, char *buf, size_t size, struct group **ret)
{
    int r = find_group(0, gid, g, buf, size);

    *ret = r == 1 ? g : 0;
    return r == ERANGE ? ERANGE : 0;
}

static struct passwd the_passwd;
static struct group the_group;
static char passwd_line[1024], group_line[4096];

struct passwd *getpwent(void)
{
    return read_passwd(&the_passwd, passwd_line, sizeof passwd_line) == 1 ? &the_passwd : 0;
}

struct passwd *getpwnam(const char *name)
{
    return find_passwd(name, 0, &the_passwd, passwd_line, sizeof passwd_line) == 1 ? &the_passwd
                                                                                   : 0;
}

struct passwd *getpwuid(uid_t uid)
{
    return find_passwd(0, uid, &the_passwd, passwd_line, sizeof passwd_line) == 1 ? &the_passwd : 0;
}

struct group *getgrent(void)
{
    return read_group(&the_group, group_line, sizeof group_line) == 1 ? &the_group : 0;
}

struct group *getgrnam(const char *name)
{
    return find_group(name, 0, &the_group, group_line, sizeof group_line) == 1 ? &the_group : 0;
}

struct group *getgrgid(gid_t gid)
{
    return find_group(0, gid, &the_group, group_line, sizeof group_line) == 1 ? &the_group : 0;
}

int getgrouplist(const char *user, gid_t gid, gid_t *groups, int *count)
{
    struct group g;
    char buf[4096];
    int room = *count, n = 0;

    if (n < room)
        groups[n] = gid;
    n++;
    FILE *kept = group_file;
    group_file = 0;
    while (read_group(&g, buf, sizeof buf) == 1)
        for (char **m = g.gr_mem; *m; m++)
            if (strcmp(*m, user) == 0 && g.gr_gid != gid) {
                if (n < room)
                    groups[n] = g.gr_gid;
                n++;
                break;
            }
    endgrent();
    group_file = kept;
    *count = n;
    return n > room ? -1 : n;
}

int getlogin_r(char *buf, size_t size)
{
    struct passwd p, *found;
    char line[1024];

    if (getpwuid_r(getuid(), &p, line, sizeof line, &found) != 0 || !found)
        return ENOENT;
    if (strlen(p.pw_name) >= size)
        return ERANGE;
    strcpy(buf, p.pw_name);
    return 0;
}

char *getlogin(void)
{
    static char name[64];
    int e = getlogin_r(name, sizeof name);

    errno = e ? e : errno;
    return e ? 0 : name;
}
