/* SPDX-License-Identifier: MIT
 *
 * list.h - an intrusive doubly linked list.
 *
 * A struct that is to be in a list has a struct dz_list in it; the list itself
 * is another struct dz_list, its head. Nothing is allocated, and an element can
 * leave without knowing which list it is in.
 *
 *     struct job { int id; struct dz_list link; };
 *     struct dz_list jobs = DZ_LIST_INIT(jobs);
 *     dz_list_push_back(&jobs, &job->link);
 *     DZ_LIST_FOREACH (struct job, j, &jobs, link)
 *         if (j->id == 7)
 *             dz_list_remove(&j->link);
 *
 *      head <-> first <-> ... <-> last <-> head
 *
 * Invariant: n->next->prev == n and n->prev->next == n for every member, head
 * included. A node in no list points at itself, so removing it twice is
 * harmless. All operations but the count take constant time.
 */
#ifndef DZ_BASE_LIST_H
#define DZ_BASE_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

struct dz_list {
    struct dz_list *prev, *next;
};

#define DZ_LIST_INIT(name) {&(name), &(name)}

static inline void dz_list_init(struct dz_list *l)
{
    l->prev = l->next = l;
}

static inline bool dz_list_empty(const struct dz_list *l) /* of a node: is it in no list? */
{
    return l->next == l;
}

/* Put node n, which must be in no list, right before or after a member. */
static inline void dz_list_insert_before(struct dz_list *at, struct dz_list *n)
{
    assert(dz_list_empty(n));
    n->prev = at->prev;
    n->next = at;
    at->prev->next = n;
    at->prev = n;
}
static inline void dz_list_insert_after(struct dz_list *at, struct dz_list *n)
{
    dz_list_insert_before(at->next, n);
}
static inline void dz_list_push_back(struct dz_list *head, struct dz_list *n)
{
    dz_list_insert_before(head, n);
}
static inline void dz_list_push_front(struct dz_list *head, struct dz_list *n)
{
    dz_list_insert_after(head, n);
}

static inline void dz_list_remove(struct dz_list *n)
{
    assert(n->next->prev == n && n->prev->next == n);
    n->prev->next = n->next;
    n->next->prev = n->prev;
    dz_list_init(n);
}

/* Move all members of `from` to the end of `to`, in order. */
static inline void dz_list_splice_back(struct dz_list *to, struct dz_list *from)
{
    if (dz_list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    dz_list_init(from);
}

static inline size_t dz_list_count(const struct dz_list *head)
{
    size_t n = 0;
    for (const struct dz_list *at = head->next; at != head; at = at->next)
        n++;
    return n;
}

/* The struct around a link, or NULL when the link is the head itself. */
static inline void *dz_list_entry(const struct dz_list *head, struct dz_list *link, size_t offset)
{
    return link == head ? NULL : (char *)link - offset;
}

/* First and last element, NULL when empty. */
#define DZ_LIST_FIRST(type, head, member) \
    ((type *)dz_list_entry((head), (head)->next, offsetof(type, member)))
#define DZ_LIST_LAST(type, head, member) \
    ((type *)dz_list_entry((head), (head)->prev, offsetof(type, member)))

/* The body may remove or free the element it is given, and no other. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a variable is declared by its bare name */
#define DZ_LIST_FOREACH(type, var, head, member)                                               \
    for (type *var = DZ_LIST_FIRST(type, head, member), *var##_next = NULL;                    \
         var &&                                                                                \
         (var##_next = dz_list_entry((head), var->member.next, offsetof(type, member)), true); \
         var = var##_next)
/* NOLINTEND(bugprone-macro-parentheses) */

#endif
