/* SPDX-License-Identifier: MIT */
#include "base/list.h"

#include "tap.h"

struct item {
    _Alignas(32) int id; /* an alignment that the list's head lacks */
    struct dz_list link;
};

static void fill(struct dz_list *head, struct item *items, int n)
{
    for (int i = 0; i < n; i++) {
        items[i].id = i;
        dz_list_init(&items[i].link);
        dz_list_push_back(head, &items[i].link);
    }
}

/* The ids of a list as digits of a number, 9 first so that zeros count. */
static long digits(struct dz_list *head)
{
    long sum = 9;
    DZ_LIST_FOREACH(struct item, it, head, link)
        sum = sum * 10 + it->id;
    return sum;
}

TEST(list_keeps_order_at_both_ends)
{
    struct dz_list head = DZ_LIST_INIT(head);
    struct item items[4];
    CHECK(dz_list_empty(&head));
    CHECK(DZ_LIST_FIRST(struct item, &head, link) == NULL);
    CHECK(DZ_LIST_LAST(struct item, &head, link) == NULL);
    CHECK_INT(digits(&head), 9);
    fill(&head, items, 3);
    items[3].id = 7;
    dz_list_init(&items[3].link);
    dz_list_push_front(&head, &items[3].link);
    CHECK_INT(digits(&head), 97012);
    CHECK_INT(dz_list_count(&head), 4);
    CHECK(DZ_LIST_FIRST(struct item, &head, link) == &items[3]);
    CHECK(DZ_LIST_LAST(struct item, &head, link) == &items[2]);
    dz_list_remove(&items[0].link);
    dz_list_insert_after(&items[1].link, &items[0].link);
    CHECK_INT(digits(&head), 97102);
    dz_list_remove(&items[3].link);
    dz_list_insert_before(&items[2].link, &items[3].link);
    CHECK_INT(digits(&head), 91072);
}

TEST(list_removal_twice_is_harmless)
{
    struct dz_list head = DZ_LIST_INIT(head);
    struct item items[2];
    fill(&head, items, 2);
    dz_list_remove(&items[0].link);
    dz_list_remove(&items[0].link);
    CHECK(dz_list_empty(&items[0].link));
    CHECK_INT(digits(&head), 91);
}

TEST(list_loop_may_remove_and_break)
{
    struct dz_list head = DZ_LIST_INIT(head);
    struct item items[6];
    int seen = 0;
    fill(&head, items, 6);
    DZ_LIST_FOREACH(struct item, it, &head, link) {
        if (it->id % 2) {
            dz_list_remove(&it->link);
            memset(it, 0x55, sizeof *it); /* gone: must not be read again */
        }
        seen++;
    }
    CHECK_INT(seen, 6);
    CHECK_INT(digits(&head), 9024);
    DZ_LIST_FOREACH(struct item, it, &head, link)
        if (it->id == 2)
            break;
        else
            seen++;
    CHECK_INT(seen, 7);
}

TEST(list_splices)
{
    struct dz_list a = DZ_LIST_INIT(a), b = DZ_LIST_INIT(b);
    struct item x[2], y[3];
    fill(&a, x, 2);
    fill(&b, y, 3);
    dz_list_splice_back(&a, &b);
    CHECK_INT(digits(&a), 901012);
    CHECK(dz_list_empty(&b));
    dz_list_splice_back(&a, &b);
    CHECK_INT(dz_list_count(&a), 5);
    dz_list_splice_back(&b, &a);
    CHECK_INT(digits(&b), 901012);
    CHECK(dz_list_empty(&a));
}
