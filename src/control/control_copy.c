/* SPDX-License-Identifier: MIT
 *
 * control_copy.c - copies of a sandbox's files: clone and share.
 */
#include "control/control_int.h"

#include "base/fd.h"

#include <stdio.h>
#include <unistd.h>

/* --- clone --------------------------------------------------------------------------------- */

struct cloning {
    struct dz_control *e;
    dz_sandbox_done_fn *done;
    void *arg;
    char id[DZ_ID_TEXT];
};

static void on_cloned(void *arg, struct dz_sandbox *b, const struct dz_sandbox_result *result)
{
    struct cloning c = *(struct cloning *)arg;
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    struct dz_sandbox_result r = *result;
    struct dz_why why = {0};
    struct dz_err err;
    (void)b;
    dz_free(arg);
    r.row = NULL;
    if (r.code == 0) {
        r.code = dz_registry_get(c.e->registry, c.id, &row, &err);
        if (r.code < 0)
            (void)dz_why_err(&why, r.code, &err);
        else
            r.row = &row;
        r.why = r.code < 0 ? &why : NULL;
    }
    c.done(c.arg, &r);
}

int dz_control_clone(struct dz_control *e, struct dz_control_target target,
                     const struct dz_control_clone *clone, dz_sandbox_done_fn *done, void *arg,
                     struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    const char *tenant = clone->tenant, *sees = dz_control_sees(target.who);
    int rc = clone->name ? dz_control_check_name(clone->name, why) : 0;
    if (rc == 0 && tenant && sees && strcmp(tenant, sees) != 0)
        rc = dz_why(why, DZ_EDENIED, "tenant", "tenant: you can clone into your own tenant only");
    if (rc == 0 && tenant && dz_control_check_name(tenant, why) < 0)
        rc = dz_why(why, DZ_EINVAL, "tenant",
                    "tenant: must be 1 to 63 letters, digits, '-', '_' or '.'");
    if (rc == 0)
        rc = dz_control_row(e, target, &row, why);
    if (rc < 0)
        return rc;
    struct cloning *c = dz_zalloc(sizeof *c);
    if (!c)
        return dz_why(why, DZ_ENOMEM, NULL, "clone: out of memory");
    const struct dz_control_creation what = {.tenant = tenant ? tenant : row.tenant,
                                             .token = target.who->token,
                                             .memory_bytes = (uint64_t)row.memory,
                                             .copy_bytes = dz_control_file_bytes(e, &row)};
    struct dz_creating *creating = dz_usage_create(e, &what, done, arg, why);
    if (!creating) {
        dz_free(c);
        return why->err.code;
    }
    *c = (struct cloning){.e = e, .done = dz_usage_created, .arg = creating};
    rc = dz_id_new("sbx", c->id, &why->err);
    if (rc == 0) {
        const struct dz_instance to = {
            .id = c->id, .tenant = tenant, .name = clone->name, .owner = target.who->token};
        const struct dz_sandbox_request request = {.what = DZ_REQUEST_CLONE, .clone = &to};
        rc = dz_sandbox_order(e->sandboxes, &row, &request, on_cloned, c, why);
    }
    if (rc == DZ_EEXIST && clone->name)
        (void)dz_why(why, rc, "name", "a sandbox named \"%s\" already exists", clone->name);
    if (rc < 0) {
        dz_free(c);
        dz_usage_create_over(creating);
    }
    return rc;
}

/* --- share ---------------------------------------------------------------------------------- */

struct sharing {
    struct dz_control *e;
    dz_control_file_fn *done;
    void *arg;
    char key[DZ_ID_TEXT];
};

/* Open the file and remove its name: it is deleted when its reader closes it. */
static int take_file(const struct sharing *s, struct dz_err *err)
{
    char path[DZ_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/share/%s", s->e->data_path, s->key);
    if (n < 0 || n >= DZ_PATH_MAX)
        return dz_fail(err, DZ_ELIMIT, "the path of the public file is too long");
    int fd = dz_fd_open(AT_FDCWD, path, O_RDONLY | O_NOFOLLOW, 0, err);
    (void)unlink(path);
    return fd;
}

static void on_shared(void *arg, struct dz_sandbox *b, const struct dz_sandbox_result *result)
{
    struct sharing s = *(struct sharing *)arg;
    struct dz_sandbox_result r = *result;
    struct dz_why why = {0};
    struct dz_err err;
    int fd = -1;
    (void)b;
    dz_free(arg);
    if (r.code == 0) {
        fd = take_file(&s, &err);
        r.code = fd < 0 ? dz_why_err(&why, fd, &err) : 0;
        r.why = &why;
    }
    s.done(s.arg, &r, fd);
}

int dz_control_share(struct dz_control *e, struct dz_control_target target,
                     dz_control_file_fn *done, void *arg, struct dz_why *why)
{
    DZ_AUTO(dz_instance_release) struct dz_instance row = {0};
    int rc = dz_control_row(e, target, &row, why);
    if (rc < 0)
        return rc;
    struct sharing *s = dz_zalloc(sizeof *s);
    if (!s)
        return dz_why(why, DZ_ENOMEM, NULL, "share: out of memory");
    *s = (struct sharing){.e = e, .done = done, .arg = arg};
    rc = dz_id_new("share", s->key, &why->err);
    if (rc == 0) {
        const struct dz_sandbox_request request = {
            .what = DZ_REQUEST_SHARE, .share_store = e->share, .share_key = s->key};
        rc = dz_sandbox_order(e->sandboxes, &row, &request, on_shared, s, why);
    }
    if (rc < 0)
        dz_free(s);
    return rc;
}
