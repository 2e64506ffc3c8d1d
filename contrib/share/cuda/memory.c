/* What of the GPU's memory a program has, by what it has asked the driver for; more than its job may use it does not
 * get. The driver's context, and what its libraries take by other ways, are not seen here. */
#include "hooks.h"

#include <pthread.h>
#include <stdlib.h>

#define BUCKETS 4096
#define MOST_MIB (1L << 20) /* more than any GPU has */

struct piece {
    enum kind kind;
    unsigned long long key;
    size_t bytes;
    CUcontext of;
    struct piece *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece *pieces[BUCKETS];
static size_t used, cap; /* cap 0: none is known */

static struct piece **bucket(unsigned long long key) { return &pieces[(key >> 9) % BUCKETS]; }

void memory_cap(long mib) {
    pthread_mutex_lock(&lock);
    cap = mib <= 0 || mib > MOST_MIB ? 0 : (size_t)mib << 20;
    pthread_mutex_unlock(&lock);
}

size_t memory_used(void) {
    pthread_mutex_lock(&lock);
    size_t now = used;
    pthread_mutex_unlock(&lock);
    return now;
}

/* Taken before the driver is asked, so that two threads do not both get the last of it. */
int memory_take(size_t bytes) {
    pthread_mutex_lock(&lock);
    int fits = cap == 0 || (used <= cap && bytes <= cap - used);
    if (fits) used += bytes;
    pthread_mutex_unlock(&lock);
    return fits;
}

static void keep(struct piece *p) {
    struct piece **at = bucket(p->key);
    p->next = *at;
    *at = p;
}

void memory_taken(CUresult result, enum kind kind, unsigned long long key, size_t bytes) {
    CUcontext of = current_context();
    struct piece *p = result == CUDA_SUCCESS ? malloc(sizeof *p) : NULL;
    pthread_mutex_lock(&lock);
    if (p == NULL) {
        used -= bytes; /* refused by the driver, or it will not be known when it is freed */
    } else {
        *p = (struct piece){kind, key, bytes, of, NULL};
        keep(p);
    }
    pthread_mutex_unlock(&lock);
}

static void drop(struct piece **at) {
    struct piece *gone = *at;
    *at = gone->next;
    used -= gone->bytes;
    free(gone);
}

void memory_freed(enum kind kind, unsigned long long key) {
    pthread_mutex_lock(&lock);
    struct piece **at = bucket(key);
    while (*at != NULL && ((*at)->key != key || (*at)->kind != kind)) at = &(*at)->next;
    if (*at != NULL) drop(at);
    pthread_mutex_unlock(&lock);
}

void memory_forget(CUcontext context) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BUCKETS; i++)
        for (struct piece **at = &pieces[i]; *at != NULL;)
            if (context == NULL || (*at)->of == context)
                drop(at);
            else
                at = &(*at)->next;
    pthread_mutex_unlock(&lock);
}

/* A framework that takes a part of what is there shall take it of what it may have. */
void memory_clip(size_t *available, size_t *total) {
    pthread_mutex_lock(&lock);
    size_t left = cap > used ? cap - used : 0;
    if (cap > 0 && available != NULL && *available > left) *available = left;
    if (cap > 0 && total != NULL && *total > cap) *total = cap;
    pthread_mutex_unlock(&lock);
}
