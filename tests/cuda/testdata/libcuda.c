/* A libcuda.so.1 for tests. Its GPU is a file that several processes map: one queue of kernels, served in order, each of
 * which takes as long as its function is called (busy_500: 500 us). Nothing runs there; what was launched when, and from
 * when to when it had the GPU, is written down in the file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"

#define ENTRY __attribute__((visibility("default")))
#define CAPTURE_UNSUPPORTED 900
#define CAPTURE_INVALIDATED 901

/* tests/cuda reads these. */
struct record {
    int32_t pid, kernels;
    int64_t launched, began, ended;
    char by[8];
};
struct gpu {
    _Atomic int64_t free_at;
    _Atomic int64_t count;
    struct record records[200000];
};

struct CUctx_st { _Atomic int64_t ends; };
struct CUstream_st { _Atomic int64_t ends; CUgraph into; int spoiled; };
struct CUgraphNode_st { int type; int64_t us; CUgraph child; };
struct CUgraph_st { size_t count; CUgraphNode nodes[4096]; };
struct CUgraphExec_st { int64_t us; int kernels; };
struct CUevent_st { _Atomic int64_t ends; };

static struct gpu *gpu;
static unsigned slow_us; /* STUB_SLOW_US: what a launch takes until it is in the queue */
static struct CUctx_st primary;
static struct CUstream_st legacy;
static _Atomic int captures;
static _Thread_local struct CUstream_st own;
static _Thread_local CUcontext stack[16];
static _Thread_local int depth;

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void sleep_until(int64_t ns) {
    struct timespec at = {ns / 1000000000, ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {}
}

static struct CUstream_st *stream_of(CUstream s) { return s == NULL ? &legacy : s == PER_THREAD ? &own : s; }

static void later(_Atomic int64_t *at, int64_t ns) {
    int64_t was = atomic_load(at);
    while (was < ns && !atomic_compare_exchange_weak(at, &was, ns)) {}
}

static CUresult run(struct CUstream_st *s, int64_t us, int kernels, const char *by) {
    if (depth == 0 || gpu == NULL) return 201;
    if (slow_us > 0) usleep(slow_us);
    int64_t launched = now_ns(), free_at = atomic_load(&gpu->free_at), began, ended;
    do {
        began = free_at > launched ? free_at : launched;
        ended = began + us * 1000;
    } while (!atomic_compare_exchange_weak(&gpu->free_at, &free_at, ended));
    later(&s->ends, ended);
    later(&stack[depth - 1]->ends, ended);
    struct record *r = &gpu->records[atomic_fetch_add(&gpu->count, 1) % 200000];
    *r = (struct record){.pid = getpid(), .kernels = kernels, .launched = launched, .began = began};
    strncpy(r->by, by, sizeof r->by - 1);
    r->ended = ended;
    return CUDA_SUCCESS;
}

static CUresult add(CUgraph graph, struct CUgraphNode_st node) {
    CUgraphNode n = malloc(sizeof *n);
    *n = node;
    graph->nodes[graph->count++] = n;
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, CUstream stream, const char *by) {
    struct CUstream_st *s = stream_of(stream);
    if (s->into != NULL) return add(s->into, (struct CUgraphNode_st){NODE_KERNEL, (int64_t)(intptr_t)f, NULL});
    return run(s, (int64_t)(intptr_t)f, 1, by);
}

ENTRY CUresult cuInit(unsigned flags) {
    const char *path = getenv("STUB_GPU");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    const char *slow = getenv("STUB_SLOW_US");
    (void)flags;
    slow_us = slow == NULL ? 0 : (unsigned)atoi(slow);
    if (gpu != NULL) return CUDA_SUCCESS;
    if (fd < 0) return 100;
    void *map = mmap(NULL, sizeof *gpu, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED) return 100;
    gpu = map;
    return CUDA_SUCCESS;
}

ENTRY CUresult cuDeviceGetCount(int *count) { *count = 1; return CUDA_SUCCESS; }
ENTRY CUresult cuCtxCreate_v2(CUcontext *c, unsigned flags, CUdevice d) {
    (void)flags, (void)d;
    *c = stack[depth++] = calloc(1, sizeof **c);
    return CUDA_SUCCESS;
}
ENTRY CUresult cuCtxDestroy_v2(CUcontext c) {
    if (depth > 0 && stack[depth - 1] == c) depth--;
    free(c);
    return CUDA_SUCCESS;
}
ENTRY CUresult cuCtxGetCurrent(CUcontext *c) { *c = depth > 0 ? stack[depth - 1] : NULL; return CUDA_SUCCESS; }
ENTRY CUresult cuCtxSetCurrent(CUcontext c) { depth = depth > 0 ? depth : 1; stack[depth - 1] = c; return CUDA_SUCCESS; }
ENTRY CUresult cuCtxPushCurrent_v2(CUcontext c) { stack[depth++] = c; return CUDA_SUCCESS; }
ENTRY CUresult cuCtxPopCurrent_v2(CUcontext *c) { *c = stack[--depth]; return CUDA_SUCCESS; }
ENTRY CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { (void)d; *c = &primary; return CUDA_SUCCESS; }
ENTRY CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d) { (void)d; return CUDA_SUCCESS; }
ENTRY CUresult cuDevicePrimaryCtxReset_v2(CUdevice d) { (void)d; return CUDA_SUCCESS; }
ENTRY CUresult cuDevicePrimaryCtxGetState(CUdevice d, unsigned *f, int *a) { (void)d; *f = 0; *a = 0; return CUDA_SUCCESS; }

/* What is being recorded is spoiled by it, as with the real one. */
ENTRY CUresult cuCtxSynchronize(void) {
    if (depth == 0) return 201;
    if (atomic_load(&captures) > 0) {
        legacy.spoiled = 1;
        return CAPTURE_UNSUPPORTED;
    }
    sleep_until(atomic_load(&stack[depth - 1]->ends));
    return CUDA_SUCCESS;
}
ENTRY CUresult cuStreamCreate(CUstream *s, unsigned flags) { (void)flags; *s = calloc(1, sizeof **s); return CUDA_SUCCESS; }
ENTRY CUresult cuStreamDestroy_v2(CUstream s) { free(s); return CUDA_SUCCESS; }
ENTRY CUresult cuStreamSynchronize(CUstream s) { sleep_until(atomic_load(&stream_of(s)->ends)); return CUDA_SUCCESS; }
ENTRY CUresult cuStreamSynchronize_ptsz(CUstream s) { return cuStreamSynchronize(s == NULL ? PER_THREAD : s); }
ENTRY CUresult cuEventSynchronize(CUevent e) { sleep_until(atomic_load(&e->ends)); return CUDA_SUCCESS; }

ENTRY CUresult cuModuleLoadData(void **module, const void *image) { (void)image; *module = &primary; return CUDA_SUCCESS; }
ENTRY CUresult cuModuleGetFunction(CUfunction *f, void *module, const char *name) {
    (void)module;
    *f = (CUfunction)(intptr_t)atoi(name + strlen("busy_"));
    return CUDA_SUCCESS;
}

#define GRID unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned m, CUstream s
#define UNUSED (void)x, (void)y, (void)z, (void)bx, (void)by, (void)bz, (void)m, (void)args
ENTRY CUresult cuLaunchKernel(CUfunction f, GRID, void **args, void **extra) {
    UNUSED, (void)extra;
    return launch(f, s, "plain");
}
ENTRY CUresult cuLaunchKernel_ptsz(CUfunction f, GRID, void **args, void **extra) {
    UNUSED, (void)extra;
    return launch(f, s == NULL ? PER_THREAD : s, "ptsz");
}
ENTRY CUresult cuLaunchCooperativeKernel(CUfunction f, GRID, void **args) { UNUSED; return launch(f, s, "coop"); }
ENTRY CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, GRID, void **args) {
    UNUSED;
    return launch(f, s == NULL ? PER_THREAD : s, "coop_p");
}
ENTRY CUresult cuLaunchKernelEx(const struct launch_config *c, CUfunction f, void **args, void **extra) {
    (void)args, (void)extra;
    return launch(f, c->stream, "ex");
}
ENTRY CUresult cuLaunchKernelEx_ptsz(const struct launch_config *c, CUfunction f, void **args, void **extra) {
    (void)args, (void)extra;
    return launch(f, c->stream == NULL ? PER_THREAD : c->stream, "ex_p");
}

ENTRY CUresult cuGraphCreate(CUgraph *g, unsigned flags) { (void)flags; *g = calloc(1, sizeof **g); return CUDA_SUCCESS; }
ENTRY CUresult cuGraphDestroy(CUgraph g) {
    for (size_t i = 0; i < g->count; i++) free(g->nodes[i]);
    free(g);
    return CUDA_SUCCESS;
}
ENTRY CUresult cuGraphAddKernelNode_v2(CUgraphNode *n, CUgraph g, const CUgraphNode *after, size_t count, CUfunction *f) {
    (void)n, (void)after, (void)count;
    return add(g, (struct CUgraphNode_st){NODE_KERNEL, (int64_t)(intptr_t)*f, NULL});
}
ENTRY CUresult cuGraphAddChildGraphNode(CUgraphNode *n, CUgraph g, const CUgraphNode *after, size_t count, CUgraph child) {
    (void)n, (void)after, (void)count;
    return add(g, (struct CUgraphNode_st){NODE_GRAPH, 0, child});
}
ENTRY CUresult cuGraphAddEmptyNode(CUgraphNode *n, CUgraph g, const CUgraphNode *after, size_t count) {
    (void)n, (void)after, (void)count;
    return add(g, (struct CUgraphNode_st){5, 0, NULL});
}
ENTRY CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *count) {
    if (nodes != NULL) memcpy(nodes, g->nodes, *count * sizeof *nodes);
    *count = g->count;
    return CUDA_SUCCESS;
}
ENTRY CUresult cuGraphNodeGetType(CUgraphNode n, int *type) { *type = n->type; return CUDA_SUCCESS; }
ENTRY CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode n, CUgraph *g) { *g = n->child; return CUDA_SUCCESS; }

static void total(CUgraph g, CUgraphExec e) {
    for (size_t i = 0; i < g->count; i++) {
        if (g->nodes[i]->child != NULL) total(g->nodes[i]->child, e);
        e->us += g->nodes[i]->us;
        e->kernels += g->nodes[i]->type == NODE_KERNEL;
    }
}
ENTRY CUresult cuGraphInstantiateWithFlags(CUgraphExec *e, CUgraph g, unsigned long long flags) {
    (void)flags;
    *e = calloc(1, sizeof **e);
    total(g, *e);
    return CUDA_SUCCESS;
}
ENTRY CUresult cuGraphInstantiateWithParams(CUgraphExec *e, CUgraph g, void *how) {
    (void)how;
    return cuGraphInstantiateWithFlags(e, g, 0);
}
ENTRY CUresult cuGraphInstantiate_v2(CUgraphExec *e, CUgraph g, CUgraphNode *wrong, char *log, size_t size) {
    (void)wrong, (void)log, (void)size;
    return cuGraphInstantiateWithFlags(e, g, 0);
}
ENTRY CUresult cuGraphExecDestroy(CUgraphExec e) { free(e); return CUDA_SUCCESS; }
ENTRY CUresult cuGraphLaunch(CUgraphExec e, CUstream s) { return run(stream_of(s), e->us, e->kernels, "graph"); }
ENTRY CUresult cuGraphLaunch_ptsz(CUgraphExec e, CUstream s) {
    return run(stream_of(s == NULL ? PER_THREAD : s), e->us, e->kernels, "graph_p");
}

ENTRY CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    (void)mode;
    stream_of(stream)->into = calloc(1, sizeof(struct CUgraph_st));
    legacy.spoiled = 0;
    atomic_fetch_add(&captures, 1);
    return CUDA_SUCCESS;
}
ENTRY CUresult cuStreamIsCapturing(CUstream s, int *how) { *how = stream_of(s)->into != NULL; return CUDA_SUCCESS; }
ENTRY CUresult cuStreamEndCapture(CUstream stream, CUgraph *g) {
    struct CUstream_st *s = stream_of(stream);
    if (s->into == NULL) return 401;
    *g = s->into;
    s->into = NULL;
    atomic_fetch_sub(&captures, 1);
    return legacy.spoiled ? CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

ENTRY CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t size) {
    if (size == 0) return 1;
    *p = (CUdeviceptr)(intptr_t)malloc(1);
    return CUDA_SUCCESS;
}
ENTRY CUresult cuMemAllocPitch_v2(CUdeviceptr *p, size_t *pitch, size_t width, size_t height, unsigned element) {
    (void)element;
    *pitch = width;
    return cuMemAlloc_v2(p, width * height);
}
ENTRY CUresult cuMemAllocManaged(CUdeviceptr *p, size_t size, unsigned flags) {
    return flags == 0 ? 1 : cuMemAlloc_v2(p, size);
}
ENTRY CUresult cuMemAllocAsync(CUdeviceptr *p, size_t size, CUstream s) { (void)s; return cuMemAlloc_v2(p, size); }
ENTRY CUresult cuMemFree_v2(CUdeviceptr p) { free((void *)(intptr_t)p); return CUDA_SUCCESS; }
ENTRY CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s) { (void)s; return cuMemFree_v2(p); }
ENTRY CUresult cuMemCreate(CUmemHandle *h, size_t size, const struct allocation *a, unsigned long long flags) {
    (void)a, (void)flags;
    return cuMemAlloc_v2(h, size);
}
ENTRY CUresult cuMemRelease(CUmemHandle h) { return cuMemFree_v2(h); }
ENTRY CUresult cuMemGetInfo_v2(size_t *available, size_t *all) {
    *available = (size_t)70 << 30;
    *all = (size_t)80 << 30;
    return CUDA_SUCCESS;
}

/* As the driver does: by the name without its suffix, the version of CUDA and whose the NULL stream is. With STUB_INNER
 * it gives an address that it does not export. */
static CUresult inner(CUfunction f, GRID, void **args, void **extra) { UNUSED, (void)extra; return launch(f, s, "inner"); }
ENTRY CUresult cuGetProcAddress(const char *name, void **found, int version, unsigned long long flags);
ENTRY CUresult cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long long flags, int *how);

#define HAS(name) {#name, (void *)name},
static const struct { const char *name; void *at; } all[] = {
    HAS(cuInit) HAS(cuDeviceGetCount) HAS(cuCtxCreate_v2) HAS(cuCtxDestroy_v2) HAS(cuCtxGetCurrent) HAS(cuCtxSetCurrent)
    HAS(cuCtxPushCurrent_v2) HAS(cuCtxPopCurrent_v2) HAS(cuDevicePrimaryCtxRetain) HAS(cuDevicePrimaryCtxRelease_v2)
    HAS(cuDevicePrimaryCtxReset_v2) HAS(cuDevicePrimaryCtxGetState) HAS(cuCtxSynchronize) HAS(cuStreamCreate)
    HAS(cuStreamDestroy_v2) HAS(cuStreamSynchronize) HAS(cuStreamSynchronize_ptsz) HAS(cuEventSynchronize)
    HAS(cuModuleLoadData) HAS(cuModuleGetFunction) HAS(cuLaunchKernel) HAS(cuLaunchKernel_ptsz)
    HAS(cuLaunchCooperativeKernel) HAS(cuLaunchCooperativeKernel_ptsz) HAS(cuLaunchKernelEx) HAS(cuLaunchKernelEx_ptsz)
    HAS(cuGraphCreate) HAS(cuGraphDestroy) HAS(cuGraphAddKernelNode_v2) HAS(cuGraphAddChildGraphNode)
    HAS(cuGraphAddEmptyNode) HAS(cuGraphGetNodes) HAS(cuGraphNodeGetType) HAS(cuGraphChildGraphNodeGetGraph)
    HAS(cuGraphInstantiateWithFlags) HAS(cuGraphInstantiateWithParams) HAS(cuGraphInstantiate_v2)
    HAS(cuGraphExecDestroy) HAS(cuGraphLaunch) HAS(cuGraphLaunch_ptsz) HAS(cuStreamBeginCapture_v2)
    HAS(cuStreamIsCapturing) HAS(cuStreamEndCapture) HAS(cuMemAlloc_v2) HAS(cuMemAllocPitch_v2) HAS(cuMemAllocManaged)
    HAS(cuMemAllocAsync) HAS(cuMemFree_v2) HAS(cuMemFreeAsync) HAS(cuMemCreate) HAS(cuMemRelease) HAS(cuMemGetInfo_v2)
    HAS(cuGetProcAddress) HAS(cuGetProcAddress_v2)
};

static void *named(const char *name) {
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, name) == 0) return all[i].at;
    return NULL;
}

static CUresult find(const char *name, void **found, int version, unsigned long long flags) {
    const char *const suffixes[] = {"_v2_ptsz", "_ptsz", "_v2", ""};
    char full[96];
    *found = NULL;
    if (strcmp(name, "cuLaunchKernel") == 0 && getenv("STUB_INNER") != NULL) *found = (void *)inner;
    if (strcmp(name, "cuGraphInstantiate") == 0 && version >= 12000) name = "cuGraphInstantiateWithFlags";
    for (int i = flags & 2 ? 0 : 2; i < 4 && *found == NULL; i++) {
        snprintf(full, sizeof full, "%s%s", name, suffixes[i]);
        if (strcmp(full, "cuGetProcAddress_v2") != 0 || version >= 12000) *found = named(full);
    }
    return *found == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
ENTRY CUresult cuGetProcAddress(const char *name, void **found, int version, unsigned long long flags) {
    return find(name, found, version, flags);
}
ENTRY CUresult cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long long flags, int *how) {
    CUresult result = find(name, found, version, flags);
    if (how != NULL) *how = result != CUDA_SUCCESS;
    return result;
}
