/* Finds NVIDIA's functions, and is found in their place: by a program that is linked to libcuda.so.1 since this library
 * comes before it, by dlsym and dlvsym, and by cuGetProcAddress, through which the CUDA runtime takes nearly all. */
#define _GNU_SOURCE /* RTLD_NEXT, dl_iterate_phdr */
#include "hooks.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifndef __OPTIMIZE__
#error "compile with -O2: dlsym has to be left by a jump, so that libc sees who called it"
#endif
#ifdef __has_attribute
#if __has_attribute(musttail)
#define JUMP __attribute__((musttail)) return
#endif
#endif
#ifndef JUMP
#define JUMP return
#endif

typedef void *(*dlsym_t)(void *, const char *);
typedef void *(*dlvsym_t)(void *, const char *, const char *);

#define NAMED(name) {#name, NULL},
static struct {
    const char *name;
    void *_Atomic theirs;
} hooks[] = {HOOKS(NAMED)};

static atomic_int wanted = -1;

int turns_wanted(void) {
    int now = atomic_load_explicit(&wanted, memory_order_relaxed);
    if (__builtin_expect(now >= 0, 1)) return now;
    const char *path = getenv("SYNERGY_TURN_SOCK");
    atomic_compare_exchange_strong(&wanted, &now, path != NULL && path[0] != 0);
    return atomic_load(&wanted);
}

void switch_off(void) { atomic_store(&wanted, 0); }

/* libc's own dlsym and dlvsym cannot be asked for by name, since that name is ours, and what libc had for such cases is
 * no longer there to be linked to. So they are looked up where the loader does it: in the tables of the first object
 * behind this one that has them. */
struct search {
    const char *name;
    void *found;
    int behind; /* this library was passed */
};

struct tables {
    const ElfW(Sym) *symbols;
    const char *names;
    const uint32_t *hash; /* of DT_GNU_HASH */
};

static struct tables tables_of(const struct dl_phdr_info *object) {
    struct tables t = {NULL, NULL, NULL};
    for (int i = 0; i < object->dlpi_phnum; i++) {
        if (object->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        const ElfW(Dyn) *d = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
        for (; d->d_tag != DT_NULL; d++) {
            ElfW(Addr) at = d->d_un.d_ptr; /* moved already, but for the kernel's own object */
            const void *table = (const void *)(at < object->dlpi_addr ? at + object->dlpi_addr : at);
            if (d->d_tag == DT_SYMTAB) t.symbols = table;
            if (d->d_tag == DT_STRTAB) t.names = table;
            if (d->d_tag == DT_GNU_HASH) t.hash = table;
        }
    }
    return t;
}

static uint32_t hash_of(const char *name) {
    uint32_t h = 5381;
    for (; *name != 0; name++) h = h * 33 + (unsigned char)*name;
    return h;
}

/* No function of libc's: a sanitizer that is still at its own beginning, and asks dlsym for libc's, stands before them. */
static int same(const char *a, const char *b) {
    for (; *a == *b; a++, b++)
        if (*a == 0) return 1;
    return 0;
}

/* A table of buckets, each the first of a row of symbols whose last has an odd hash. */
static const ElfW(Sym) *symbol(struct tables t, const char *name) {
    if (t.symbols == NULL || t.names == NULL || t.hash == NULL || t.hash[0] == 0) return NULL;
    uint32_t buckets = t.hash[0], first = t.hash[1], words = t.hash[2], wants = hash_of(name);
    const uint32_t *bucket = t.hash + 4 + words * (sizeof(ElfW(Addr)) / 4), *row = bucket + buckets;
    uint32_t at = bucket[wants % buckets];
    if (at < first) return NULL;
    for (;; at++) {
        uint32_t hash = row[at - first];
        const ElfW(Sym) *s = t.symbols + at;
        if ((hash | 1) == (wants | 1) && s->st_shndx != SHN_UNDEF && same(t.names + s->st_name, name)) return s;
        if (hash & 1) return NULL;
    }
}

static int contains(const struct dl_phdr_info *object, const void *address) {
    ElfW(Addr) at = (ElfW(Addr))address - object->dlpi_addr;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = object->dlpi_phdr + i;
        if (p->p_type == PT_LOAD && at >= p->p_vaddr && at - p->p_vaddr < p->p_memsz) return 1;
    }
    return 0;
}

static int look(struct dl_phdr_info *object, size_t size, void *into) {
    struct search *s = into;
    (void)size;
    if (!s->behind) {
        s->behind = contains(object, hooks);
        return 0;
    }
    const ElfW(Sym) *found = symbol(tables_of(object), s->name);
    if (found != NULL) s->found = (void *)(object->dlpi_addr + found->st_value);
    return found != NULL;
}

static void *libc(const char *name) {
    struct search s = {name, NULL, 0};
    dl_iterate_phdr(look, &s);
    if (s.found == NULL) abort(); /* there is no dlopen without a dlsym */
    return s.found;
}

static dlsym_t libc_dlsym(void) {
    static void *_Atomic found;
    void *at = atomic_load_explicit(&found, memory_order_acquire);
    if (at == NULL) atomic_store(&found, at = libc("dlsym"));
    return (dlsym_t)at;
}

static dlvsym_t libc_dlvsym(void) {
    static void *_Atomic found;
    void *at = atomic_load_explicit(&found, memory_order_acquire);
    if (at == NULL) atomic_store(&found, at = libc("dlvsym"));
    return (dlvsym_t)at;
}

void *driver_named(const char *name) {
    static void *_Atomic opened;
    void *libcuda = atomic_load_explicit(&opened, memory_order_acquire);
    if (libcuda == NULL) libcuda = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (libcuda == NULL) return NULL; /* the program has not loaded it */
    atomic_store(&opened, libcuda);
    return libc_dlsym()(libcuda, name);
}

void *driver(enum hook hook) {
    void *at = atomic_load_explicit(&hooks[hook].theirs, memory_order_acquire);
    if (__builtin_expect(at != NULL, 1)) return at;
    at = driver_named(hooks[hook].name);
    if (at != NULL) atomic_store(&hooks[hook].theirs, at);
    return at;
}

CUcontext current_context(void) {
    static void *_Atomic found;
    void *at = atomic_load_explicit(&found, memory_order_acquire);
    if (at == NULL) atomic_store(&found, at = driver_named("cuCtxGetCurrent"));
    CUcontext now = NULL;
    if (at == NULL || ((CUresult(*)(CUcontext *))at)(&now) != CUDA_SUCCESS) return NULL;
    return now;
}

static int hook_named(const char *name) {
    for (int h = 0; h < HOOKED; h++)
        if (same(hooks[h].name, name)) return h;
    return HOOKED;
}

/* Nearly every name that is looked up is none of CUDA's. Who asks for the next function of a name knows what he does. */
static inline int is_hooked(void *handle, const char *name) {
    return name != NULL && name[0] == 'c' && name[1] == 'u' && handle != RTLD_NEXT && hook_named(name) != HOOKED;
}

/* What dlsym says of a name that is hooked. What another library has under it is none of our business, unless it is all
 * that there is. In the whole program, where this library comes first, libc finds the stand-in even without a driver. */
static void *instead_of(void *found, const char *name) {
    int hook = hook_named(name);
    if (found == NULL) return NULL;
    void *theirs = driver((enum hook)hook);
    if (found == stand_ins[hook]) return turns_wanted() && theirs != NULL ? found : theirs;
    if (theirs == NULL) atomic_store(&hooks[hook].theirs, theirs = found);
    return turns_wanted() && found == theirs ? stand_ins[hook] : found;
}

EXPORTED void *dlsym(void *restrict handle, const char *restrict name) {
    dlsym_t next = libc_dlsym();
    if (is_hooked(handle, name)) return instead_of(next(handle, name), name);
    JUMP next(handle, name);
}

EXPORTED void *dlvsym(void *restrict handle, const char *restrict name, const char *restrict version) {
    dlvsym_t next = libc_dlvsym();
    if (is_hooked(handle, name)) return instead_of(next(handle, name, version), name);
    JUMP next(handle, name, version);
}

enum { PER_THREAD_STREAMS = 2, SINCE_12 = 12000 };

/* A program names a function without its suffix; which it is given depends on its version of CUDA and on whose the NULL
 * stream is. */
static int hook_for(const char *name, int version, unsigned long long flags) {
    static const char *const suffixes[] = {"_v2_ptsz", "_ptsz", "_v2", ""};
    char full[64];
    if (same(name, "cuGraphInstantiate"))
        return version >= SINCE_12 ? HOOK_cuGraphInstantiateWithFlags : HOOK_cuGraphInstantiate_v2;
    if (same(name, "cuGetProcAddress"))
        return version >= SINCE_12 ? HOOK_cuGetProcAddress_v2 : HOOK_cuGetProcAddress;
    for (int i = flags & PER_THREAD_STREAMS ? 0 : 2; i < 4; i++) {
        if (strlen(name) + strlen(suffixes[i]) >= sizeof full) continue;
        int hook = hook_named(strcat(strcpy(full, name), suffixes[i]));
        if (hook != HOOKED) return hook;
    }
    return HOOKED;
}

/* The address tells exactly which function it is. What has a name that we do not hook is a version of later years, with
 * other arguments maybe, and is left alone. What the driver does not export at all is what was asked for. */
static void *instead_of_version(void *found, const char *name, int version, unsigned long long flags) {
    Dl_info exported;
    for (int h = 0; h < HOOKED; h++)
        if (driver((enum hook)h) == found) return stand_ins[h];
    int hook = hook_for(name, version, flags);
    if (hook == HOOKED || (dladdr(found, &exported) != 0 && exported.dli_saddr == found)) return found;
    atomic_store(&hooks[hook].theirs, found);
    return stand_ins[hook];
}

void stand_in(const char *name, void **found, int version, unsigned long long flags) {
    if (name != NULL && found != NULL && *found != NULL)
        *found = instead_of_version(*found, name, version, flags);
}
