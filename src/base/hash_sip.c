/* SPDX-License-Identifier: MIT
 *
 * hash_sip.c - SipHash with one round for each word and three at the end.
 *
 * Four 64-bit words are mixed by additions, rotations and exclusive-ors; the
 * input enters eight bytes at a time, little-endian, the last word carrying
 * the length in its top byte.
 */
#include "base/hash.h"

#include <endian.h>

struct sip {
    uint64_t a, b, c, d;
};

static inline uint64_t rotate(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static inline void mix(struct sip *v)
{
    v->a += v->b;
    v->c += v->d;
    v->b = rotate(v->b, 13) ^ v->a;
    v->d = rotate(v->d, 16) ^ v->c;
    v->a = rotate(v->a, 32);
    v->c += v->b;
    v->a += v->d;
    v->b = rotate(v->b, 17) ^ v->c;
    v->d = rotate(v->d, 21) ^ v->a;
    v->c = rotate(v->c, 32);
}

static inline void take_word(struct sip *v, uint64_t word)
{
    v->d ^= word;
    mix(v);
    v->a ^= word;
}

uint64_t dz_siphash(const uint64_t key[static 2], const void *data, size_t n)
{
    const unsigned char *p = data;
    struct sip v = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                    key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
    uint64_t word, last = (uint64_t)n << 56;
    size_t left = n;

    for (; left >= 8; left -= 8, p += 8) {
        memcpy(&word, p, 8);
        take_word(&v, le64toh(word));
    }
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)p[i] << (8 * i);
    take_word(&v, last);
    v.c ^= 0xff;
    for (int i = 0; i < 3; i++)
        mix(&v);
    return v.a ^ v.b ^ v.c ^ v.d;
}
