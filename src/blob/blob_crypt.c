/* SPDX-License-Identifier: MIT
 *
 * blob_crypt.c - encrypted objects.
 *
 *     header, 64 bytes   | chunk 0 | tag | chunk 1 | tag | ... | last chunk | tag |
 *                          64 KiB    16                          0 to 64 KiB  16
 *
 *     object's key   HMAC-SHA256(key of the file, "doze object 1\0" header name)
 *     nonce          number of the chunk, and whether it is the last one
 *
 * The header has 32 random bytes, so no two objects have the same key and a nonce never repeats.
 * The object's name is part of its key: an object under another name cannot be decrypted. Only an
 * object of no bytes has an empty last chunk, so a size has one meaning (plain_size).
 */
#include "blob/blob_crypt.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER = 64,
    MAGIC = DZ_BLOB_CRYPT_MAGIC,
    ID = 8, /* bytes of a key's id */
    SALT = 32,
    KEY = 32,
    CHUNK = 64 << 10,
    TAG = 16,
    SEALED = CHUNK + TAG,
    NONCE = 12,
    FILE_MAX = 64 << 10, /* bytes of a key file */
};
static const char magic[MAGIC] = {'D', 'O', 'Z', 'E', 'C', 'R', 'Y', '1'};
#define LINE_HEAD "doze-key-1:"

/* --- keys ------------------------------------------------------------------------------ */

struct dz_blob_keys {
    size_t count;
    char *path; /* of the file, for messages */
    uint8_t keys[DZ_BLOB_KEYS_MAX][KEY], ids[DZ_BLOB_KEYS_MAX][ID];
};

static int mac(const uint8_t key[static KEY], const void *data, size_t n, uint8_t out[static KEY],
               struct dz_err *err)
{
    unsigned size = KEY;
    return HMAC(EVP_sha256(), key, KEY, data, n, out, &size)
               ? 0
               : dz_fail(err, DZ_ENOMEM, "derive a key: libcrypto could not compute it");
}

static int add_key(struct dz_blob_keys *k, struct dz_str hex, struct dz_err *err)
{
    static const char what[] = "doze key id 1";
    uint8_t id[KEY];
    if (k->count == DZ_BLOB_KEYS_MAX)
        return dz_fail(err, DZ_ELIMIT, "a key file has at most %d keys", DZ_BLOB_KEYS_MAX);
    int rc = dz_sha256_parse(hex, k->keys[k->count], err); /* 64 digits */
    if (rc == 0)
        rc = mac(k->keys[k->count], what, sizeof what, id, err);
    if (rc == 0)
        memcpy(k->ids[k->count++], id, ID);
    return rc;
}

static int parse_keys(struct dz_blob_keys *k, struct dz_str text, struct dz_err *err)
{
    struct dz_str line;
    for (unsigned n = 1; dz_str_split(&text, '\n', &line); n++) {
        line = dz_str_trim(line);
        if (line.n == 0 || line.p[0] == '#')
            continue;
        if (!dz_str_eat(&line, DZ_STR(LINE_HEAD)) || add_key(k, line, NULL) < 0)
            return dz_fail(err, DZ_EINVAL,
                           "%s, line %u: expected " LINE_HEAD
                           " and 64 hexadecimal digits, a comment "
                           "after #, or an empty line; at most %d keys",
                           k->path, n, DZ_BLOB_KEYS_MAX);
    }
    return k->count > 0 ? 0
                        : dz_fail(err, DZ_EINVAL,
                                  "%s has no key; doze key new makes a file with one", k->path);
}

int dz_blob_keys_load(const char *path, struct dz_blob_keys **ret_keys, struct dz_err *err)
{
    struct stat st;
    struct dz_buf text = DZ_BUF_INIT(FILE_MAX);
    DZ_AUTO(dz_blob_keys_freep) struct dz_blob_keys *k = dz_zalloc(sizeof *k);
    DZ_AUTO(dz_fd_close) int fd = -1;
    if (!k || !(k->path = dz_strndup(path, strlen(path))))
        return dz_fail(err, DZ_ENOMEM, "read the key file %s: out of memory", path);
    int rc = fd = dz_fd_open(AT_FDCWD, path, O_RDONLY, 0, err);
    if (rc == DZ_ENOENT)
        return dz_fail(err, rc, "there is no key file %s; doze key new %s makes one", path, path);
    if (rc >= 0 && dz_fd_stat(fd, &st) < 0)
        rc = dz_fail_sys(err, errno, "look at the key file %s", path);
    if (rc >= 0 && (st.st_mode & 077) != 0)
        return dz_fail(err, DZ_EDENIED,
                       "other users may read or change the key file %s: chmod 600 %s", path, path);
    if (rc >= 0)
        rc = dz_fd_read_all(fd, &text, err);
    if (rc >= 0)
        rc = parse_keys(k, (struct dz_str){text.p, text.len}, err);
    if (text.len > 0)
        explicit_bzero(text.p, text.len);
    dz_buf_release(&text);
    if (rc >= 0)
        *ret_keys = DZ_TAKE_PTR(k);
    return rc < 0 ? rc : 0;
}

void dz_blob_keys_free(struct dz_blob_keys *k)
{
    if (!k)
        return;
    dz_free(k->path);
    explicit_bzero(k, sizeof *k);
    dz_free(k);
}

void dz_blob_keys_freep(struct dz_blob_keys **k)
{
    dz_blob_keys_free(*k);
}

size_t dz_blob_keys_count(const struct dz_blob_keys *k)
{
    return k->count;
}

static char *print_id(const uint8_t id[static ID], char out[static DZ_BLOB_KEY_ID_TEXT])
{
    for (size_t i = 0; i < ID; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", id[i]);
    return out;
}

char *dz_blob_keys_id(const struct dz_blob_keys *k, size_t index,
                      char out[static DZ_BLOB_KEY_ID_TEXT])
{
    assert(index < k->count);
    return print_id(k->ids[index], out);
}

int dz_blob_keys_make(const char *path, struct dz_err *err)
{
    static const char comment[] =
        "# A key of doze. Whoever has it can read what was encrypted with it; without it that is lost.\n"
        "# To replace the key, put a new line above; keep this one for objects of before.\n";
    uint8_t key[KEY];
    char hex[DZ_SHA256_HEX];
    struct dz_buf text = DZ_BUF_INIT(FILE_MAX), dir = DZ_BUF_INIT(1 << 16);
    const char *slash = strrchr(path, '/');
    int rc = dz_random(key, sizeof key, err);
    if (rc < 0)
        return rc;
    dz_buf_addf(&text, "%s" LINE_HEAD "%s\n", comment, dz_sha256_hex(key, hex));
    dz_buf_add(&dir, slash ? path : ".", slash && slash > path ? (size_t)(slash - path) : 1);
    DZ_AUTO(dz_fd_close) int fd = -1;
    rc = text.err || dir.err ? dz_fail(err, DZ_ENOMEM, "make a key: out of memory") : 0;
    if (rc == 0)
        rc = fd = dz_fd_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, err);
    if (rc == DZ_EEXIST)
        (void)dz_fail(err, rc, "%s already exists; a key is never overwritten", path);
    if (rc >= 0)
        rc = dz_fd_write(fd, text.p, text.len, err);
    if (rc >= 0 && fsync(fd) < 0)
        rc = dz_fail_sys(err, errno, "write %s", path);
    if (rc >= 0)
        rc = dz_fd_sync_dir(AT_FDCWD, dir.p, err);
    explicit_bzero(key, sizeof key);
    explicit_bzero(hex, sizeof hex);
    if (text.len > 0)
        explicit_bzero(text.p, text.len);
    dz_buf_release(&text);
    dz_buf_release(&dir);
    return rc < 0 ? rc : 0;
}

/* --- chunks ---------------------------------------------------------------------------- */

bool dz_blob_is_encrypted(const void *data, size_t n)
{
    return n >= MAGIC && memcmp(data, magic, MAGIC) == 0;
}

/* Bytes of an object's content, from the bytes that are stored; UINT64_MAX: no object has so many.
 */
static uint64_t plain_size(uint64_t stored)
{
    if (stored < HEADER + TAG)
        return UINT64_MAX;
    uint64_t body = stored - HEADER, rest = body % SEALED;
    uint64_t chunks = body / SEALED + (rest > 0);
    if (rest > 0 && (rest < TAG || (rest == TAG && chunks > 1)))
        return UINT64_MAX;
    return body - chunks * TAG;
}

static uint64_t last_chunk(uint64_t size)
{
    return size == 0 ? 0 : (size - 1) / CHUNK;
}

static int no_crypto(struct dz_err *err)
{
    return dz_fail(err, DZ_ENOMEM, "encrypt an object: libcrypto could not do it");
}

/* The cipher for an object with this header and name. */
static int open_cipher(const uint8_t key[static KEY], const uint8_t header[static HEADER],
                       const char *name, bool encrypt, EVP_CIPHER_CTX **ret_ctx, struct dz_err *err)
{
    static const char what[] = "doze object 1";
    uint8_t text[sizeof what + HEADER + DZ_BLOB_KEY_MAX], derived[KEY];
    size_t n = strlen(name);
    assert(n <= DZ_BLOB_KEY_MAX);
    memcpy(text, what, sizeof what);
    memcpy(text + sizeof what, header, HEADER);
    memcpy(text + sizeof what + HEADER, name, n);
    int rc = mac(key, text, sizeof what + HEADER + n, derived, err);
    if (rc < 0)
        return rc;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    bool good = ctx && EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, derived, NULL, encrypt) == 1;
    explicit_bzero(derived, sizeof derived);
    if (!good) {
        EVP_CIPHER_CTX_free(ctx);
        return no_crypto(err);
    }
    *ret_ctx = ctx;
    return 0;
}

static bool set_nonce(EVP_CIPHER_CTX *ctx, uint64_t number, bool last)
{
    uint8_t nonce[NONCE] = {0};
    nonce[3] = last;
    for (int i = 0; i < 8; i++)
        nonce[4 + i] = (uint8_t)(number >> 8 * i);
    return EVP_CipherInit_ex(ctx, NULL, NULL, NULL, nonce, -1) == 1;
}

/* --- the store ------------------------------------------------------------------------- */

struct crypt {
    struct dz_blobs head;
    struct dz_blobs *inner;
    struct dz_blob_keys *keys;
};

static struct crypt *crypt_of(struct dz_blobs *s)
{
    return (struct crypt *)s;
}

static int not_encrypted(const char *key, struct dz_err *err)
{
    return dz_fail(
        err, DZ_ECORRUPT,
        "the object %s is not encrypted, or was cut: it was stored without a key file, and "
        "can be read only without one",
        key);
}

/* --- reading --------------------------------------------------------------------------- */

struct crypt_in {
    struct dz_blob_in head;
    struct dz_blob_in *inner;
    EVP_CIPHER_CTX *ctx;
    uint64_t number; /* of the chunk in `plain`; UINT64_MAX: none */
    char key[DZ_BLOB_KEY_MAX + 1];
    uint8_t sealed[SEALED], plain[CHUNK];
};

static size_t chunk_size(uint64_t size, uint64_t number)
{
    uint64_t from = number * CHUNK;
    return size - from < CHUNK ? (size_t)(size - from) : CHUNK;
}

static int read_chunk(struct crypt_in *in, uint64_t number, struct dz_err *err)
{
    size_t n = chunk_size(in->head.size, number);
    int done = 0, end = 0;
    in->number = UINT64_MAX;
    int rc = dz_blob_in_read(in->inner, in->sealed, n + TAG, HEADER + number * SEALED, err);
    if (rc < 0)
        return rc;
    if (!set_nonce(in->ctx, number, number == last_chunk(in->head.size)) ||
        EVP_DecryptUpdate(in->ctx, in->plain, &done, in->sealed, (int)n) != 1 ||
        EVP_CIPHER_CTX_ctrl(in->ctx, EVP_CTRL_AEAD_SET_TAG, TAG, in->sealed + n) != 1 ||
        EVP_DecryptFinal_ex(in->ctx, in->plain + done, &end) != 1) {
        explicit_bzero(in->plain, sizeof in->plain);
        return dz_fail(
            err, DZ_ECORRUPT,
            "the object %s cannot be decrypted from byte %llu on: it was damaged, changed or "
            "cut; restore it from a backup or an older version",
            in->key, (unsigned long long)number * CHUNK);
    }
    assert((size_t)done + (size_t)end == n);
    in->number = number;
    return 0;
}

static int crypt_read(struct dz_blob_in *head, void *buf, size_t n, uint64_t at, struct dz_err *err)
{
    struct crypt_in *in = (struct crypt_in *)head;
    while (n > 0) {
        uint64_t number = at / CHUNK;
        int rc = in->number == number ? 0 : read_chunk(in, number, err);
        if (rc < 0)
            return rc;
        size_t from = (size_t)(at % CHUNK), have = chunk_size(head->size, number) - from;
        size_t some = have < n ? have : n;
        memcpy(buf, in->plain + from, some);
        buf = (char *)buf + some;
        at += some;
        n -= some;
    }
    return 0;
}

static void crypt_in_close(struct dz_blob_in *head)
{
    struct crypt_in *in = (struct crypt_in *)head;
    dz_blob_in_close(in->inner);
    EVP_CIPHER_CTX_free(in->ctx);
    explicit_bzero(in->plain, sizeof in->plain);
    dz_free(in);
}

static const struct dz_blob_in_ops crypt_in_ops = {crypt_read, crypt_in_close};

static int open_object(const struct crypt *c, struct crypt_in *in, struct dz_err *err)
{
    uint8_t header[HEADER];
    char id[DZ_BLOB_KEY_ID_TEXT];
    size_t i = 0;
    uint64_t size = plain_size(in->inner->size);
    if (in->inner->size < HEADER + TAG)
        return not_encrypted(in->key, err);
    int rc = dz_blob_in_read(in->inner, header, sizeof header, 0, err);
    if (rc < 0)
        return rc;
    if (!dz_blob_is_encrypted(header, sizeof header) || size == UINT64_MAX)
        return not_encrypted(in->key, err);
    while (i < c->keys->count && memcmp(c->keys->ids[i], header + MAGIC, ID) != 0)
        i++;
    if (i == c->keys->count)
        return dz_fail(
            err, DZ_EDENIED,
            "the object %s was encrypted with the key %s, which is not in %s: add its line",
            in->key, print_id(header + MAGIC, id), c->keys->path);
    in->head.size = size;
    rc = open_cipher(c->keys->keys[i], header, in->key, false, &in->ctx, err);
    return rc < 0 || size > 0 ? rc : read_chunk(in, 0, err); /* nobody would read an empty chunk */
}

static int crypt_in_open(struct dz_blobs *s, const char *key, struct dz_blob_in **ret_in,
                         struct dz_err *err)
{
    struct crypt_in *in = dz_zalloc(sizeof *in);
    if (!in)
        return dz_fail(err, DZ_ENOMEM, "read the object %s: out of memory", key);
    in->head = (struct dz_blob_in){.ops = &crypt_in_ops, .fd = -1};
    in->number = UINT64_MAX;
    (void)snprintf(in->key, sizeof in->key, "%s", key);
    int rc = dz_blob_in_open(crypt_of(s)->inner, key, &in->inner, err);
    if (rc == 0)
        rc = open_object(crypt_of(s), in, err);
    if (rc < 0) {
        crypt_in_close(&in->head);
        return rc;
    }
    *ret_in = &in->head;
    return 0;
}

/* --- writing --------------------------------------------------------------------------- */

struct crypt_out {
    struct dz_blob_out head;
    struct dz_blob_out *inner;
    EVP_CIPHER_CTX *ctx;
    uint64_t number; /* of the chunk in `plain` */
    size_t have;     /* bytes of it */
    bool begun, ended;
    uint8_t header[HEADER], plain[CHUNK], sealed[SEALED];
};

/* Before the first byte: the header. */
static int begin(struct crypt_out *o, struct dz_err *err)
{
    if (o->begun)
        return 0;
    o->begun = true;
    o->inner->time_ms = o->head.time_ms;
    return dz_blob_out_write(o->inner, o->header, HEADER, err);
}

static int seal(struct crypt_out *o, bool last, struct dz_err *err)
{
    int done = 0, end = 0;
    if (!set_nonce(o->ctx, o->number, last) ||
        EVP_EncryptUpdate(o->ctx, o->sealed, &done, o->plain, (int)o->have) != 1 ||
        EVP_EncryptFinal_ex(o->ctx, o->sealed + done, &end) != 1 ||
        EVP_CIPHER_CTX_ctrl(o->ctx, EVP_CTRL_AEAD_GET_TAG, TAG, o->sealed + o->have) != 1)
        return no_crypto(err);
    assert((size_t)done + (size_t)end == o->have);
    int rc = dz_blob_out_write(o->inner, o->sealed, o->have + TAG, err);
    o->number++;
    o->have = 0;
    return rc;
}

static int crypt_write(struct dz_blob_out *head, const void *data, size_t n, struct dz_err *err)
{
    struct crypt_out *o = (struct crypt_out *)head;
    int rc = begin(o, err);
    while (rc == 0 && n > 0) {
        if (o->have == CHUNK) /* a byte follows, so this is not the last chunk */
            rc = seal(o, false, err);
        size_t room = CHUNK - o->have, some = n < room ? n : room;
        memcpy(o->plain + o->have, data, some);
        o->have += some;
        data = (const char *)data + some;
        n -= some;
    }
    return rc;
}

static int end(struct crypt_out *o, struct dz_err *err)
{
    int rc = begin(o, err);
    if (rc == 0 && !o->ended)
        rc = seal(o, true, err);
    o->ended = o->ended || rc == 0;
    return rc;
}

static int crypt_sync(struct dz_blob_out *head, struct dz_err *err)
{
    struct crypt_out *o = (struct crypt_out *)head;
    int rc = end(o, err);
    return rc < 0 ? rc : dz_blob_out_sync(o->inner, err);
}

static int crypt_commit(struct dz_blob_out *head, struct dz_err *err)
{
    struct crypt_out *o = (struct crypt_out *)head;
    int rc = end(o, err);
    o->inner->only_new = head->only_new;
    o->inner->claimed = head->claimed;
    return rc < 0 ? rc : dz_blob_out_commit(o->inner, err);
}

static void crypt_out_close(struct dz_blob_out *head)
{
    struct crypt_out *o = (struct crypt_out *)head;
    dz_blob_out_close(o->inner);
    EVP_CIPHER_CTX_free(o->ctx);
    explicit_bzero(o->plain, sizeof o->plain);
    dz_free(o);
}

/* There is no rename: the name is part of an object's key. */
static const struct dz_blob_out_ops crypt_out_ops = {
    .write = crypt_write, .commit = crypt_commit, .close = crypt_out_close, .sync = crypt_sync};

static int crypt_out_open(struct dz_blobs *s, const char *key, struct dz_blob_out **ret_out,
                          struct dz_err *err)
{
    const struct crypt *c = crypt_of(s);
    struct crypt_out *o = dz_zalloc(sizeof *o);
    if (!o)
        return dz_fail(err, DZ_ENOMEM, "write the object %s: out of memory", key);
    o->head = (struct dz_blob_out){.ops = &crypt_out_ops, .fd = -1};
    memcpy(o->header, magic, MAGIC);
    memcpy(o->header + MAGIC, c->keys->ids[0], ID);
    int rc = dz_random(o->header + MAGIC + ID, SALT, err);
    if (rc == 0)
        rc = open_cipher(c->keys->keys[0], o->header, key, true, &o->ctx, err);
    if (rc == 0)
        rc = dz_blob_out_open(c->inner, key, &o->inner, err);
    if (rc < 0) {
        crypt_out_close(&o->head);
        return rc;
    }
    *ret_out = &o->head;
    return 0;
}

/* --- the rest -------------------------------------------------------------------------- */

static int crypt_stat(struct dz_blobs *s, const char *key, uint64_t *ret_size, struct dz_err *err)
{
    uint64_t stored = 0;
    int rc = dz_blobs_stat(crypt_of(s)->inner, key, &stored, err);
    if (rc == 0 && plain_size(stored) == UINT64_MAX)
        rc = not_encrypted(key, err);
    if (rc == 0)
        *ret_size = plain_size(stored);
    return rc;
}

static int crypt_remove(struct dz_blobs *s, const char *key, struct dz_err *err)
{
    return dz_blobs_remove(crypt_of(s)->inner, key, err);
}

struct listing {
    int (*fn)(void *arg, const char *key, uint64_t size);
    void *arg;
};

static int list_one(void *arg, const char *key, uint64_t stored)
{
    const struct listing *l = arg;
    uint64_t size = plain_size(stored);
    return l->fn(l->arg, key, size == UINT64_MAX ? stored : size);
}

static int crypt_list(struct dz_blobs *s, int (*fn)(void *arg, const char *key, uint64_t size),
                      void *arg, struct dz_err *err)
{
    struct listing l = {fn, arg};
    return dz_blobs_list(crypt_of(s)->inner, list_one, &l, err);
}

static int crypt_sweep(struct dz_blobs *s, struct dz_err *err)
{
    return dz_blobs_sweep(crypt_of(s)->inner, err);
}

static void crypt_close(struct dz_blobs *s)
{
    struct crypt *c = crypt_of(s);
    dz_blobs_free(c->inner);
    dz_blob_keys_free(c->keys);
    dz_free(c);
}

static const struct dz_blobs_ops crypt_ops = {
    .stat = crypt_stat,
    .in_open = crypt_in_open,
    .out_open = crypt_out_open,
    .remove = crypt_remove,
    .list = crypt_list,
    .sweep = crypt_sweep,
    .close = crypt_close,
};

int dz_blobs_encrypt(struct dz_blobs *inner, struct dz_blob_keys *keys, struct dz_blobs **ret_store,
                     struct dz_err *err)
{
    struct crypt *c = dz_zalloc(sizeof *c);
    if (!c) {
        dz_blobs_free(inner);
        dz_blob_keys_free(keys);
        return dz_fail(err, DZ_ENOMEM, "open an encrypted store: out of memory");
    }
    *c = (struct crypt){{&crypt_ops, inner->far}, inner, keys};
    *ret_store = &c->head;
    return 0;
}
