/* program HOW WHAT [N [US [MORE]]]: a CUDA program that knows nothing of turns. HOW is the way by which it finds its
 * functions, WHAT what it does with kernels of US; then it says how it did. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "abi.h"
#include "synergy_cuda.h"

#define MUST(call) must(call, #call)
static void must(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS) return;
    printf("{\"Error\":%d}\n", result);
    fprintf(stderr, "%s: %d\n", what, result);
    exit(3);
}

#ifdef DIRECT /* linked to the driver */
CUresult cuInit(unsigned);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                        void **, void **);
#endif

static void *libcuda;
static const char *how;

static void *linked(const char *name) {
#ifdef DIRECT
    if (strcmp(name, "cuInit") == 0) return (void *)cuInit;
    if (strcmp(name, "cuLaunchKernel") == 0) return (void *)cuLaunchKernel;
#endif
    return dlsym(libcuda, name);
}

/* By cuGetProcAddress, which itself is found by dlsym, or by itself. */
static void *by_address(const char *name, const char *own_name, int version, unsigned long long flags) {
    void *found = NULL, *finder = dlsym(libcuda, own_name);
    if (strcmp(own_name, "cuGetProcAddress") == 0) {
        ((CUresult(*)(const char *, void **, int, unsigned long long))finder)(name, &found, version, flags);
        return found;
    }
    CUresult (*find)(const char *, void **, int, unsigned long long, int *) =
        (CUresult(*)(const char *, void **, int, unsigned long long, int *))finder;
    void *again = NULL;
    int status;
    find("cuGetProcAddress", &again, version, flags, &status);
    find = (CUresult(*)(const char *, void **, int, unsigned long long, int *))again;
    find(name, &found, version, flags, &status);
    return found;
}

/* The name is that of the header, without a suffix. */
static void *find(const char *name) {
    char full[64];
    if (strcmp(how, "proc") == 0) return by_address(name, "cuGetProcAddress", 11080, 1);
    if (strcmp(how, "proc2") == 0) return by_address(name, "cuGetProcAddress_v2", 12020, 0);
    if (strcmp(how, "proc_ptsz") == 0) return by_address(name, "cuGetProcAddress", 11080, 2);
    if (strcmp(how, "proc2_ptsz") == 0) return by_address(name, "cuGetProcAddress_v2", 12020, 2);
    const char *const suffixes[] = {"_ptsz", "_v2", ""};
    for (int i = strcmp(how, "ptsz") == 0 ? 0 : 1; i < 3; i++) {
        snprintf(full, sizeof full, "%s%s", name, suffixes[i]);
        if (strcmp(how, "linked") == 0 && i == 2) return linked(full);
        void *found = strcmp(how, "dlvsym") == 0    ? dlvsym(libcuda, full, "STUB_1")
                      : strcmp(how, "default") == 0 ? dlsym(RTLD_DEFAULT, full)
                                                    : dlsym(libcuda, full);
        if (found != NULL) return found;
    }
    return NULL;
}

#define CALL(name, declared) ((CUresult(*) declared)needed(#name))
static void *needed(const char *name) {
    void *found = find(name);
    if (found == NULL) {
        fprintf(stderr, "there is no %s\n", name);
        exit(4);
    }
    return found;
}

static CUcontext context;
static CUresult (*launch_kernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                                 void **, void **);
static CUresult (*synchronize)(void);

static CUfunction busy(int us) {
    void *module;
    CUfunction f;
    char name[32];
    snprintf(name, sizeof name, "busy_%d", us);
    MUST(CALL(cuModuleLoadData, (void **, const void *))(&module, ""));
    MUST(CALL(cuModuleGetFunction, (CUfunction *, void *, const char *))(&f, module, name));
    return f;
}

static void launch(CUfunction f, CUstream stream) { MUST(launch_kernel(f, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL)); }

static CUstream new_stream(void) {
    CUstream s;
    MUST(CALL(cuStreamCreate, (CUstream *, unsigned))(&s, 1));
    return s;
}

/* N kernels of US, with a wait after each MORE of them. */
static void kernels(int n, int us, int more) {
    CUfunction f = busy(us);
    for (int i = 1; i <= n; i++) {
        launch(f, NULL);
        if (more > 0 && i % more == 0) MUST(synchronize());
    }
    MUST(synchronize());
}

/* For ever, and says so once. */
static void forever(int us) {
    CUfunction f = busy(us);
    for (int i = 0;; i++) {
        launch(f, NULL);
        if (i == 10) printf("up\n"), fflush(stdout);
    }
}

/* Some kernels, and then something else for a long time. */
static void pause_after(int n, int us) {
    kernels(n, us, 0);
    printf("up\n"), fflush(stdout);
    sleep(60);
}

struct of_thread { int n, us; };
static void *in_thread(void *of) {
    struct of_thread *t = of;
    MUST(CALL(cuCtxSetCurrent, (CUcontext))(context));
    CUstream streams[2] = {new_stream(), new_stream()};
    CUfunction f = busy(t->us);
    for (int i = 0; i < t->n; i++) launch(f, streams[i % 2]);
    return NULL;
}

/* Four threads, each with two streams. */
static void threads(int n, int us) {
    pthread_t all[4];
    struct of_thread of = {n, us};
    for (int i = 0; i < 4; i++) pthread_create(&all[i], NULL, in_thread, &of);
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    MUST(synchronize());
}

/* Two contexts in turn. */
static void two_contexts(int n, int us) {
    CUcontext both[2] = {context, NULL};
    CUfunction f = busy(us);
    MUST(CALL(cuCtxCreate, (CUcontext *, unsigned, CUdevice))(&both[1], 0, 0));
    for (int i = 0; i < n; i++) {
        MUST(CALL(cuCtxSetCurrent, (CUcontext))(both[i % 2]));
        launch(f, NULL);
    }
    for (int i = 0; i < 2; i++) {
        MUST(CALL(cuCtxSetCurrent, (CUcontext))(both[i]));
        MUST(synchronize());
    }
}

/* By each function that launches kernels: eight in all, without the one of the graph. */
static void every_way(int us) {
    CUfunction f = busy(us);
    struct launch_config c = {.stream = NULL};
    CUgraph graph;
    CUgraphExec ready;
    launch(f, NULL);
    MUST(CALL(cuLaunchKernelEx, (void *, CUfunction, void **, void **))(&c, f, NULL, NULL));
    MUST(CALL(cuLaunchCooperativeKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                          CUstream, void **))(f, 1, 1, 1, 1, 1, 1, 0, NULL, NULL));
    MUST(CALL(cuGraphCreate, (CUgraph *, unsigned))(&graph, 0));
    for (int i = 0; i < 5; i++)
        MUST(CALL(cuGraphAddKernelNode, (CUgraphNode *, CUgraph, void *, size_t, void *))(NULL, graph, NULL, 0, &f));
    MUST(CALL(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))(&ready, graph, 0));
    MUST(CALL(cuGraphLaunch, (CUgraphExec, CUstream))(ready, NULL));
    MUST(synchronize());
}

/* A graph of N kernels, one in it of N more, and what is no kernel; launched MORE times. */
static void graphs(int n, int us, int more) {
    CUgraph graph, child;
    CUgraphExec ready;
    CUfunction f = busy(us);
    MUST(CALL(cuGraphCreate, (CUgraph *, unsigned))(&graph, 0));
    MUST(CALL(cuGraphCreate, (CUgraph *, unsigned))(&child, 0));
    for (int i = 0; i < n; i++) {
        MUST(CALL(cuGraphAddKernelNode, (CUgraphNode *, CUgraph, void *, size_t, void *))(NULL, graph, NULL, 0, &f));
        MUST(CALL(cuGraphAddKernelNode, (CUgraphNode *, CUgraph, void *, size_t, void *))(NULL, child, NULL, 0, &f));
    }
    MUST(CALL(cuGraphAddEmptyNode, (CUgraphNode *, CUgraph, void *, size_t))(NULL, graph, NULL, 0));
    MUST(CALL(cuGraphAddChildGraphNode, (CUgraphNode *, CUgraph, void *, size_t, CUgraph))(NULL, graph, NULL, 0, child));
    if (strncmp(how, "proc", 4) == 0 && strncmp(how, "proc2", 5) != 0)
        MUST(CALL(cuGraphInstantiate, (CUgraphExec *, CUgraph, void *, char *, size_t))(&ready, graph, NULL, NULL, 0));
    else
        MUST(CALL(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))(&ready, graph, 0));
    for (int i = 0; i < more; i++) MUST(CALL(cuGraphLaunch, (CUgraphExec, CUstream))(ready, NULL));
    MUST(synchronize());
    MUST(CALL(cuGraphExecDestroy, (CUgraphExec))(ready));
    MUST(CALL(cuGraphDestroy, (CUgraph))(child));
    MUST(CALL(cuGraphDestroy, (CUgraph))(graph));
}

/* Records a graph of N kernels slowly, beside a thread that launches, and launches it. */
static void capture(int n, int us) {
    CUfunction f = busy(us);
    CUstream s = new_stream();
    CUgraph graph;
    CUgraphExec ready;
    struct of_thread beside = {n, us};
    pthread_t other;
    launch(f, NULL);
    pthread_create(&other, NULL, in_thread, &beside);
    MUST(CALL(cuStreamBeginCapture, (CUstream, int))(s, 0));
    for (int i = 0; i < n; i++) launch(f, s), usleep(2000);
    MUST(CALL(cuStreamEndCapture, (CUstream, CUgraph *))(s, &graph));
    MUST(CALL(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long))(&ready, graph, 0));
    MUST(CALL(cuGraphLaunch, (CUgraphExec, CUstream))(ready, s));
    pthread_join(other, NULL);
    MUST(synchronize());
}

/* Takes N pieces of US MiB in different ways, gives all back, and takes one again; says how many it could have. */
static void memory(int n, int mib) {
    CUdeviceptr *p = calloc((size_t)n, sizeof *p);
    size_t bytes = (size_t)mib << 20, pitch, available, total;
    struct allocation on_gpu = {.location = {ON_DEVICE, 0}}, on_host = {.location = {2, 0}};
    CUmemHandle h, other;
    int i, last = 0;
    for (i = 0; i < n && last == 0; i++)
        last = i % 3 == 0   ? CALL(cuMemAlloc, (CUdeviceptr *, size_t))(&p[i], bytes)
               : i % 3 == 1 ? CALL(cuMemAllocPitch, (CUdeviceptr *, size_t *, size_t, size_t, unsigned))(
                                  &p[i], &pitch, 1 << 20, (size_t)mib, 4)
                            : CALL(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned))(&p[i], bytes, 1);
    int got = last == 0 ? i : i - 1;
    MUST(CALL(cuMemGetInfo, (size_t *, size_t *))(&available, &total));
    for (i = 0; i < got; i++) MUST(CALL(cuMemFree, (CUdeviceptr))(p[i]));
    int zero = CALL(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned))(&p[0], bytes, 0); /* the driver's own refusal */
    MUST(CALL(cuMemCreate, (CUmemHandle *, size_t, void *, unsigned long long))(&other, bytes * 1000, &on_host, 0));
    MUST(CALL(cuMemCreate, (CUmemHandle *, size_t, void *, unsigned long long))(&h, bytes, &on_gpu, 0));
    printf("{\"Got\":%d,\"Last\":%d,\"Zero\":%d,\"Available\":%zu,\"Total\":%zu}\n", got, last, zero, available, total);
    MUST(CALL(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))(&p[0], bytes, NULL));
    MUST(CALL(cuMemFreeAsync, (CUdeviceptr, CUstream))(p[0], NULL));
}

/* A child goes on when the parent has no turn, and so does the parent. */
static void forks(int n, int us) {
    kernels(n, us, 0);
    usleep(100000);
    pid_t child = fork();
    kernels(n, us, 0);
    if (child == 0) exit(0);
    int status;
    waitpid(child, &status, 0);
    if (status != 0) exit(5);
}

/* How long a launch takes that takes no time, ns: the best of many. */
static void cost(int n) {
    CUfunction f = busy(0);
    double best = 1e9;
    for (int i = 0; i < n; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int k = 0; k < 50; k++) launch(f, NULL);
        clock_gettime(CLOCK_MONOTONIC, &b);
        double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 50;
        if (ns < best) best = ns;
    }
    printf("{\"Ns\":%.1f}\n", best);
}

static void tell(void) {
    struct synergy_cuda_counts c = {0};
    void (*counts)(struct synergy_cuda_counts *) =
        (void (*)(struct synergy_cuda_counts *))dlsym(RTLD_DEFAULT, "synergy_cuda_counts");
    if (counts != NULL) counts(&c);
    printf("{\"Kernels\":%llu,\"Waits\":%llu,\"Grants\":%llu,\"Unmanaged\":%llu,\"Memory\":%llu,\"Bound\":%u,\"Most\":%u,"
           "\"KernelUs\":%.1f,\"Step\":%.1f}\n",
           c.kernels, c.waits, c.grants, c.unmanaged, c.memory, c.bound, c.most, c.kernel_us, c.step);
}

static void begin(void) {
    libcuda = dlopen("libcuda.so.1", strcmp(how, "default") == 0 ? RTLD_NOW | RTLD_GLOBAL : RTLD_NOW | RTLD_LOCAL);
    if (libcuda == NULL) fprintf(stderr, "%s\n", dlerror()), exit(4);
    launch_kernel = (CUresult(*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                                 void **, void **))needed("cuLaunchKernel");
    synchronize = CALL(cuCtxSynchronize, (void));
    MUST(CALL(cuInit, (unsigned))(0));
    MUST(CALL(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))(&context, 0));
    MUST(CALL(cuCtxSetCurrent, (CUcontext))(context));
}

int main(int argc, char **argv) {
    int n = argc > 3 ? atoi(argv[3]) : 0, us = argc > 4 ? atoi(argv[4]) : 0, more = argc > 5 ? atoi(argv[5]) : 0;
    const char *what = argc > 2 ? argv[2] : "";
    how = argv[1];
    begin();
    if (strcmp(what, "kernels") == 0) kernels(n, us, more);
    if (strcmp(what, "forever") == 0) forever(us);
    if (strcmp(what, "pause") == 0) pause_after(n, us);
    if (strcmp(what, "threads") == 0) threads(n, us);
    if (strcmp(what, "contexts") == 0) two_contexts(n, us);
    if (strcmp(what, "every") == 0) every_way(us);
    if (strcmp(what, "graphs") == 0) graphs(n, us, more);
    if (strcmp(what, "capture") == 0) capture(n, us);
    if (strcmp(what, "memory") == 0) memory(n, us);
    if (strcmp(what, "forks") == 0) forks(n, us);
    if (strcmp(what, "cost") == 0) cost(n);
    if (strcmp(what, "look") == 0) usleep(300000);
    tell();
    return 0;
}
