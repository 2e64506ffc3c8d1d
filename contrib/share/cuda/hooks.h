/* The parts of the library: lookup finds NVIDIA's functions and stands in for them, gate says when kernels may be
 * launched, pace how many at once, graphs how many a graph has, memory how much a program may still have. */
#ifndef SYNERGY_CUDA_HOOKS_H
#define SYNERGY_CUDA_HOOKS_H

#include "abi.h"

/* Each function that is hooked, by the name that the driver exports. */
#define HOOKS(X) \
    X(cuLaunchKernel) X(cuLaunchKernel_ptsz) X(cuLaunchKernelEx) X(cuLaunchKernelEx_ptsz) \
    X(cuLaunchCooperativeKernel) X(cuLaunchCooperativeKernel_ptsz) X(cuGraphLaunch) X(cuGraphLaunch_ptsz) \
    X(cuGraphInstantiate) X(cuGraphInstantiate_v2) X(cuGraphInstantiateWithFlags) \
    X(cuGraphInstantiateWithParams) X(cuGraphInstantiateWithParams_ptsz) X(cuGraphExecDestroy) \
    X(cuStreamBeginCapture_v2) X(cuStreamBeginCapture_v2_ptsz) X(cuStreamBeginCaptureToGraph) \
    X(cuStreamBeginCaptureToGraph_ptsz) X(cuStreamEndCapture) X(cuStreamEndCapture_ptsz) \
    X(cuCtxSynchronize) X(cuStreamSynchronize) X(cuStreamSynchronize_ptsz) X(cuEventSynchronize) \
    X(cuCtxDestroy_v2) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease_v2) X(cuDevicePrimaryCtxReset_v2) \
    X(cuMemAlloc_v2) X(cuMemAllocPitch_v2) X(cuMemAllocManaged) X(cuMemAllocAsync) X(cuMemAllocAsync_ptsz) \
    X(cuMemAllocFromPoolAsync) X(cuMemAllocFromPoolAsync_ptsz) X(cuMemCreate) X(cuMemFree_v2) X(cuMemFreeAsync) \
    X(cuMemFreeAsync_ptsz) X(cuMemRelease) X(cuMemGetInfo_v2) X(cuGetProcAddress) X(cuGetProcAddress_v2)

#define AS_INDEX(name) HOOK_##name,
enum hook { HOOKS(AS_INDEX) HOOKED };
#undef AS_INDEX

/* hooks.c: what stands in for each */
extern void *const stand_ins[HOOKED];
#define EXPORTED __attribute__((visibility("default")))

/* lookup.c */
int turns_wanted(void);             /* SYNERGY_TURN_SOCK is set, and nobody has switched turns off since */
void switch_off(void);              /* for good: from now on the library passes everything on */
void *driver(enum hook hook);       /* NVIDIA's own function; NULL: this driver has none */
void *driver_named(const char *name); /* one that is not hooked */
CUcontext current_context(void);
/* Puts ours in the place of what cuGetProcAddress has found. */
void stand_in(const char *name, void **found, int version, unsigned long long flags);

/* Calls NVIDIA's own function, and is CUDA_ERROR_NOT_FOUND where there is none. */
#define DRIVER(name, declared, passed) \
    (driver(HOOK_##name) == NULL ? CUDA_ERROR_NOT_FOUND : ((CUresult(*) declared)driver(HOOK_##name))passed)

/* gate.c */
int gate_enter(unsigned kernels, CUstream stream); /* waits until they may be launched; what it says gate_leave is told */
void gate_leave(int entered);
void gate_step(void);      /* the program has waited for the GPU by itself */
void gate_meet(void);      /* waits until the broker has said what memory the program may use, or is away */
void gate_lock(void);      /* nobody waits for the GPU, or asks for it, until gate_unlock */
void gate_unlock(void);
void gate_capturing(int more);       /* with the lock held: a stream begins (1) or ends (-1) to record a graph */
int is_capturing(CUstream stream);   /* what is launched there goes into a graph, and not to the GPU */
void gate_forget(CUcontext context); /* with the lock held: it is no more */

/* graphs.c */
unsigned graph_kernels(CUgraphExec graph);
void graph_made(CUgraphExec made, CUgraph of);
void graph_gone(CUgraphExec graph);

/* memory.c */
enum kind { POINTER, HANDLE };
int memory_take(size_t bytes); /* 0: the program may not have so much more */
void memory_taken(CUresult result, enum kind kind, unsigned long long key, size_t bytes);
void memory_freed(enum kind kind, unsigned long long key);
void memory_forget(CUcontext context); /* all that it had; NULL: that all had */
void memory_cap(long mib);
void memory_clip(size_t *available, size_t *total);
size_t memory_used(void);

#endif
