/* SPDX-License-Identifier: MIT
 *
 * What an S3 server may answer: XML of any kind, and texts of URLs.
 */
#include "base/mem.h"
#include "blob/blob_s3_int.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int look(void *arg, const char *outer, const char *name, const char *text)
{
    size_t *sum = arg;
    *sum += strlen(outer) + strlen(name) + strlen(text);
    return *sum > 1 << 20 ? DZ_ECANCELED : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct s3_error e;
    struct s3_place p;
    size_t sum = 0;
    char *text = dz_strndup((const char *)data, n);
    int rc = dz_s3_answer_load(NULL);
    assert(rc == 0 && text);
    rc = dz_s3_answer_read(text, n, look, &sum, NULL);
    assert(rc < 0 || n > 0);
    dz_s3_answer_error(text, n, &e);
    assert(strlen(e.code) < sizeof e.code && strlen(e.message) < sizeof e.message);
    if (dz_s3_place_of(&(struct dz_s3_opts){.url = text}, &p, NULL) == 0)
        assert(p.host[0] && p.bucket[0] && !strchr(p.host, '/') && !strchr(p.host, '@'));
    (void)dz_s3_decode(text);
    dz_free(text);
    return 0;
}
