/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#include "tap.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* In a child that is killed when it opens a file: does fn return? */
static bool works_without_open(void (*before)(void), void (*fn)(void))
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {DZ_ARRAY_LEN(code), code};
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        before();
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
            _exit(2);
        fn();
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

static void nothing(void) {}
static void open_a_file(void)
{
    (void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
}
static void hash(void)
{
    uint8_t d[DZ_SHA256_BYTES];
    DZ_AUTO(dz_sha256_release) struct dz_sha256 h = {0};
    if (dz_sha256("abc", 3, d, NULL) < 0 || dz_sha256_init(&h, NULL) < 0)
        _exit(4);
    dz_sha256_update(&h, "abc", 3);
    if (dz_sha256_final(&h, d, NULL) < 0)
        _exit(5);
}

TEST(sha256_opens_no_file)
{
    CHECK(works_without_open(nothing, nothing));
    CHECK(!works_without_open(nothing, open_a_file));
    CHECK(works_without_open(nothing, hash));
}

static void check_hex(const char *data, size_t n, const char *want)
{
    uint8_t d[DZ_SHA256_BYTES] = {0};
    char hex[DZ_SHA256_HEX];
    CHECK_INT(dz_sha256(data, n, d, NULL), 0);
    CHECK_STR(dz_sha256_hex(d, hex), want);
}

TEST(sha256_knows_the_standard_vectors) /* FIPS 180-4 examples */
{
    check_hex("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_hex("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(sha256_in_pieces_equals_at_once)
{
    uint8_t whole[DZ_SHA256_BYTES], parts[DZ_SHA256_BYTES];
    char data[1000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7);
    CHECK_INT(dz_sha256(data, sizeof data, whole, NULL), 0);
    DZ_AUTO(dz_sha256_release) struct dz_sha256 h = {0};
    CHECK_INT(dz_sha256_init(&h, NULL), 0);
    for (size_t i = 0, n = 0; i < sizeof data; i += n) {
        n = i % 97 < sizeof data - i ? i % 97 : sizeof data - i;
        n = n ? n : 1;
        dz_sha256_update(&h, data + i, n);
    }
    dz_sha256_update(&h, NULL, 0);
    CHECK_INT(dz_sha256_final(&h, parts, NULL), 0);
    CHECK(memcmp(whole, parts, sizeof whole) == 0);
}

TEST(sha256_cannot_go_on_after_final)
{
    uint8_t d[DZ_SHA256_BYTES];
    struct dz_err e = {0};
    struct dz_sha256 h;
    CHECK_INT(dz_sha256_init(&h, NULL), 0);
    CHECK_INT(dz_sha256_final(&h, d, NULL), 0);
    dz_sha256_update(&h, "x", 1);
    CHECK_INT(dz_sha256_final(&h, d, &e), DZ_EIO);
    CHECK_STR(e.msg, "cannot finish a SHA-256: libcrypto failed");
    dz_sha256_release(&h);
    dz_sha256_release(&h);
}

TEST(sha256_hex_reads_back)
{
    uint8_t d[DZ_SHA256_BYTES], back[DZ_SHA256_BYTES];
    char hex[DZ_SHA256_HEX];
    struct dz_err e = {0};
    for (size_t i = 0; i < sizeof d; i++)
        d[i] = (uint8_t)(i * 9 + 3);
    (void)dz_sha256_hex(d, hex);
    CHECK_INT(dz_sha256_parse(dz_str(hex), back, NULL), 0);
    CHECK(memcmp(d, back, sizeof d) == 0);
    hex[10] = 'F';
    CHECK_INT(dz_sha256_parse(dz_str(hex), back, NULL), 0);
    hex[10] = 'g';
    memset(back, 1, sizeof back);
    CHECK_INT(dz_sha256_parse(dz_str(hex), back, &e), DZ_EINVAL);
    CHECK(back[0] == 1 && strstr(e.msg, "expected 64 hexadecimal digits") != NULL);
    CHECK_INT(dz_sha256_parse(dz_str_n(hex, 9), back, NULL), DZ_EINVAL);
    CHECK_INT(dz_sha256_parse(dz_str(NULL), back, NULL), DZ_EINVAL);
}

TEST(equal_secret_compares_all)
{
    CHECK(dz_equal_secret("abc", "abc", 3));
    CHECK(!dz_equal_secret("abc", "abd", 3));
    CHECK(!dz_equal_secret("xbc", "abc", 3));
    CHECK(dz_equal_secret(NULL, NULL, 0));
}

/* libcrypto's SipHash, set to one and three rounds, as the second opinion. */
static uint64_t reference(const uint64_t key[2], const void *data, size_t n)
{
    unsigned c = 1, d = 3;
    size_t size = 8, len = 0;
    uint64_t out = 0;
    OSSL_PARAM params[] = {OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_C_ROUNDS, &c),
                           OSSL_PARAM_construct_uint(OSSL_MAC_PARAM_D_ROUNDS, &d),
                           OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
                           OSSL_PARAM_construct_end()};
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(mac);
    CHECK(EVP_MAC_init(ctx, (const unsigned char *)key, 16, params) == 1);
    CHECK(EVP_MAC_update(ctx, data, n) == 1);
    CHECK(EVP_MAC_final(ctx, (unsigned char *)&out, &len, sizeof out) == 1 && len == 8);
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(mac);
    return out;
}

TEST(siphash_agrees_with_libcrypto)
{
    uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    unsigned char data[70];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 37 + 200);
    for (size_t n = 0; n <= sizeof data; n++) {
        key[0] += n;
        CHECK(dz_siphash(key, data, n) == reference(key, data, n));
    }
    CHECK(dz_siphash(key, data, 9) != dz_siphash((uint64_t[2]){1, 2}, data, 9));
}
