/* SPDX-License-Identifier: MIT
 *
 * linux_elf.c - the head of an ELF file, read and checked.
 *
 * Later code may rely on this: each segment has file_size <= size, 0 < size, its address and its
 * place in the file differ by whole pages, neither sum overflows, all lie in [low, high), which is
 * in the address space. Segments may overlap and be in any order: the mapping decides.
 */
#include "linux/linux.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
    HEADS_AT_ONCE = 16, /* program headers of one read */
    HEADS_MAX = 65536 / sizeof(Elf64_Phdr),
};

static uint64_t page_down(uint64_t n)
{
    return n & ~(uint64_t)(DZ_MM_PAGE - 1);
}

static int read_all(const struct dz_linux_file *file, uint64_t offset, void *to, size_t n)
{
    uint8_t *p = to;
    while (n > 0) {
        const int64_t got = file->read(file->arg, offset, p, n);
        if (got <= 0)
            return got < 0 ? (int)got : -EIO;
        assert((uint64_t)got <= n);
        p += got;
        n -= (size_t)got;
        offset += (uint64_t)got;
    }
    return 0;
}

static int read_head(const struct dz_linux_file *file, Elf64_Ehdr *ret_head)
{
    const int rc = read_all(file, 0, ret_head, sizeof *ret_head);
    if (rc < 0)
        return rc == -EIO ? -ENOEXEC : rc;
    if (memcmp(ret_head->e_ident, ELFMAG, SELFMAG) != 0 ||
        ret_head->e_ident[EI_CLASS] != ELFCLASS64 || ret_head->e_ident[EI_DATA] != ELFDATA2LSB)
        return -ENOEXEC;
    if (ret_head->e_machine != EM_X86_64 ||
        (ret_head->e_type != ET_EXEC && ret_head->e_type != ET_DYN))
        return -ENOEXEC;
    if (ret_head->e_phentsize != sizeof(Elf64_Phdr) || ret_head->e_phnum == 0 ||
        ret_head->e_phnum > HEADS_MAX)
        return -ENOEXEC;
    return ret_head->e_phoff <= INT64_MAX - UINT16_MAX ? 0 : -ENOEXEC;
}

static int add_segment(struct dz_elf *elf, const Elf64_Phdr *h)
{
    uint64_t end, file_end;
    if (h->p_memsz == 0)
        return h->p_filesz == 0 ? 0 : -EINVAL;
    if (elf->segment_count == DZ_ELF_SEGMENTS_MAX)
        return -ENOEXEC;
    if (h->p_filesz > h->p_memsz || (h->p_vaddr - h->p_offset) % DZ_MM_PAGE != 0)
        return -EINVAL;
    if (__builtin_add_overflow(h->p_vaddr, h->p_memsz, &end) || end > DZ_MM_ADDRESS_MAX)
        return -EINVAL;
    if (__builtin_add_overflow(h->p_offset, h->p_filesz, &file_end) || file_end > INT64_MAX)
        return -EINVAL;
    elf->segments[elf->segment_count++] = (struct dz_elf_segment){
        .start = h->p_vaddr,
        .size = h->p_memsz,
        .file_size = h->p_filesz,
        .offset = h->p_offset,
        .prot = (h->p_flags & PF_R ? PROT_READ : 0) | (h->p_flags & PF_W ? PROT_WRITE : 0) |
                (h->p_flags & PF_X ? PROT_EXEC : 0),
    };
    end = page_down(end + DZ_MM_PAGE - 1);
    elf->low = page_down(h->p_vaddr) < elf->low ? page_down(h->p_vaddr) : elf->low;
    elf->high = end > elf->high ? end : elf->high;
    if (h->p_align > elf->align && (h->p_align & (h->p_align - 1)) == 0)
        elf->align = h->p_align;
    return 0;
}

static int read_interp(const struct dz_linux_file *file, struct dz_elf *elf, const Elf64_Phdr *h)
{
    if (elf->interp[0]) /* the first one is used */
        return 0;
    if (h->p_filesz < 2 || h->p_filesz > DZ_ELF_PATH_MAX || h->p_offset > INT64_MAX - h->p_filesz)
        return -ENOEXEC;
    const int rc = read_all(file, h->p_offset, elf->interp, h->p_filesz);
    if (rc < 0)
        return rc;
    return elf->interp[0] && !elf->interp[h->p_filesz - 1] ? 0 : -ENOEXEC;
}

static int read_segments(const struct dz_linux_file *file, const Elf64_Ehdr *head,
                         struct dz_elf *elf)
{
    Elf64_Phdr heads[HEADS_AT_ONCE];
    for (uint32_t i = 0; i < head->e_phnum; i++) {
        const uint32_t in = i % HEADS_AT_ONCE;
        int rc = 0;
        if (in == 0) {
            const uint32_t left = head->e_phnum - i;
            const size_t n = left < HEADS_AT_ONCE ? left : HEADS_AT_ONCE;
            rc = read_all(file, head->e_phoff + i * sizeof *heads, heads, n * sizeof *heads);
        }
        if (rc == 0 && heads[in].p_type == PT_LOAD)
            rc = add_segment(elf, &heads[in]);
        else if (rc == 0 && heads[in].p_type == PT_INTERP)
            rc = read_interp(file, elf, &heads[in]);
        else if (rc == 0 && heads[in].p_type == PT_GNU_STACK)
            elf->exec_stack = heads[in].p_flags & PF_X;
        if (rc < 0)
            return rc;
    }
    return elf->segment_count > 0 ? 0 : -EINVAL;
}

int dz_elf_read(const struct dz_linux_file *file, struct dz_elf *ret_elf)
{
    Elf64_Ehdr head;
    int rc = read_head(file, &head);
    if (rc < 0)
        return rc;
    struct dz_elf elf = {
        .moves = head.e_type == ET_DYN,
        .entry = head.e_entry,
        .head_count = head.e_phnum,
        .low = UINT64_MAX,
        .align = DZ_MM_PAGE,
    };
    rc = read_segments(file, &head, &elf);
    if (rc < 0)
        return rc;
    if (elf.entry >= DZ_MM_ADDRESS_MAX || elf.align > DZ_MM_ADDRESS_MAX)
        return -EINVAL;
    for (uint32_t i = 0; i < elf.segment_count && elf.heads == 0; i++) {
        const struct dz_elf_segment *s = &elf.segments[i];
        if (head.e_phoff >= s->offset && head.e_phoff - s->offset < s->file_size)
            elf.heads = s->start + (head.e_phoff - s->offset);
    }
    *ret_elf = elf;
    return 0;
}
