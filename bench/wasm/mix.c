/* SPDX-License-Identifier: MIT
 *
 * mix.c - what small programs do all day, n rounds: sort and search a linked
 * list, multiply small integer matrices, scan text with a state machine, and
 * keep a CRC-16 over all of it.
 */
#include "guest.h"

/* --- list --------------------------------------------------------------------- */

enum {
    NODES = 200
};
struct node {
    struct node *next;
    int16_t key, value;
};
static struct node nodes[NODES];

static struct node *build(uint32_t *seed)
{
    struct node *head = NULL;
    for (int i = 0; i < NODES; i++) {
        nodes[i].key = (int16_t)(next_random(seed) & 0x3ff);
        nodes[i].value = (int16_t)i;
        nodes[i].next = head;
        head = &nodes[i];
    }
    return head;
}

static int by_key(const struct node *a, const struct node *b)
{
    return a->key - b->key;
}
static int by_value(const struct node *a, const struct node *b)
{
    return a->value - b->value;
}
typedef int (*compare_fn)(const struct node *, const struct node *);

static struct node *merge(struct node *a, struct node *b, compare_fn compare)
{
    struct node *head = NULL, **tail = &head;
    while (a && b) {
        struct node **from = compare(a, b) <= 0 ? &a : &b;
        *tail = *from;
        tail = &(*from)->next;
        *from = (*from)->next;
    }
    *tail = a ? a : b;
    return head;
}

static struct node *sort(struct node *list, int n, compare_fn compare)
{
    if (n < 2) {
        if (list)
            list->next = NULL;
        return list;
    }
    struct node *half = list;
    for (int i = 0; i < n / 2; i++)
        half = half->next;
    struct node *right = sort(half, n - n / 2, compare);
    return merge(sort(list, n / 2, compare), right, compare);
}

static struct node *reverse(struct node *list)
{
    struct node *done = NULL;
    while (list) {
        struct node *next = list->next;
        list->next = done;
        done = list;
        list = next;
    }
    return done;
}

static int find(const struct node *list, int16_t key)
{
    int steps = 0;
    for (; list; list = list->next, steps++)
        if (list->key == key)
            return steps;
    return -1;
}

/* --- integer matrices ----------------------------------------------------------- */

enum {
    SIDE = 12
};
static int16_t ma[SIDE][SIDE], mb[SIDE][SIDE];
static int32_t mc[SIDE][SIDE];

static uint32_t matrices(uint32_t *seed)
{
    uint32_t sum = 0;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            ma[i][j] = (int16_t)(next_random(seed) & 0xff);
            mb[i][j] = (int16_t)(next_random(seed) & 0xff);
        }
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            int32_t x = 0;
            for (int k = 0; k < SIDE; k++)
                x += ma[i][k] * mb[k][j];
            mc[i][j] = x;
            sum += (uint32_t)(x > 60000 ? x >> 4 : x & 0xfff);
        }
    return sum;
}

/* --- numbers in text --------------------------------------------------------------- */

static const char text[] = "5012,-33,+71.5e3,0x1f,.25,1e-9,abc,12..5,7e,99999,-0.0001,+,e5,1E+10,"
                           "42,3.14159,-2.5E-3,77z,0,8.,00012,-,1.2.3,6e+,65535,";
enum state {
    START,
    SIGN,
    WHOLE,
    POINT,
    FRACTION,
    E,
    E_SIGN,
    EXPONENT,
    INVALID,
    STATES
};

static enum state next_state(enum state s, char c)
{
    int digit = c >= '0' && c <= '9', sign = c == '+' || c == '-';
    switch (s) {
    case START:
        return digit ? WHOLE : sign ? SIGN : c == '.' ? POINT : INVALID;
    case SIGN:
        return digit ? WHOLE : c == '.' ? POINT : INVALID;
    case WHOLE:
        return digit ? WHOLE : c == '.' ? FRACTION : c == 'e' || c == 'E' ? E : INVALID;
    case POINT:
        return digit ? FRACTION : INVALID;
    case FRACTION:
        return digit ? FRACTION : c == 'e' || c == 'E' ? E : INVALID;
    case E:
        return digit ? EXPONENT : sign ? E_SIGN : INVALID;
    case E_SIGN:
    case EXPONENT:
        return digit ? EXPONENT : INVALID;
    case INVALID:
    case STATES:
        break;
    }
    return INVALID;
}

static uint32_t scan(uint32_t shift)
{
    uint32_t ends[STATES] = {0}, sum = 0;
    enum state s = START;
    for (size_t i = 0; text[i]; i++) {
        if (text[i] == ',') {
            ends[s]++;
            s = START;
        } else {
            s = next_state(s, (char)(text[i] ^ (i % 97 == shift % 97)));
        }
    }
    for (int i = 0; i < STATES; i++)
        sum = sum * 7 + ends[i];
    return sum;
}

/* --- all of it ------------------------------------------------------------------------- */

static uint16_t crc16(uint16_t crc, uint32_t word)
{
    for (int i = 0; i < 32; i++) {
        uint16_t bit = (uint16_t)((word >> i ^ crc) & 1);
        crc = (uint16_t)(crc >> 1);
        if (bit)
            crc ^= 0xa001;
    }
    return crc;
}

int run(int n)
{
    uint32_t seed = 99;
    uint16_t crc = 0xffff;
    for (int i = 0; i < n; i++) {
        struct node *list = sort(build(&seed), NODES, by_key);
        for (int16_t key = 0; key < 1024; key = (int16_t)(key + 64))
            crc = crc16(crc, (uint32_t)find(list, key));
        list = reverse(sort(list, NODES, by_value));
        crc = crc16(crc, (uint32_t)list->key);
        crc = crc16(crc, matrices(&seed));
        crc = crc16(crc, scan((uint32_t)i));
    }
    return crc;
}
