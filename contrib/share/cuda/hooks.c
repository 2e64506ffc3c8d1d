/* The functions that stand in for NVIDIA's. Each passes on what it is given and adds what its line says. */
#include "hooks.h"

#include <stdatomic.h>

/* Declares a stand-in and calls what it stands in for. */
#define BEGIN(name, declared) EXPORTED CUresult name declared
#define OWN(stream) ((stream) == NULL ? PER_THREAD : (stream))

/* Kernels: only while the gate is open. */
#define LAUNCH(name, kernels, stream, declared, passed) \
    BEGIN(name, declared); \
    BEGIN(name, declared) { \
        int entered = gate_enter(kernels, stream); \
        CUresult result = DRIVER(name, declared, passed); \
        gate_leave(entered); \
        return result; \
    }

#define GRID unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream
#define OF_GRID x, y, z, bx, by, bz, shared, stream
LAUNCH(cuLaunchKernel, 1, stream, (CUfunction f, GRID, void **args, void **extra), (f, OF_GRID, args, extra))
LAUNCH(cuLaunchKernel_ptsz, 1, OWN(stream), (CUfunction f, GRID, void **args, void **extra), (f, OF_GRID, args, extra))
LAUNCH(cuLaunchCooperativeKernel, 1, stream, (CUfunction f, GRID, void **args), (f, OF_GRID, args))
LAUNCH(cuLaunchCooperativeKernel_ptsz, 1, OWN(stream), (CUfunction f, GRID, void **args), (f, OF_GRID, args))

#define CONFIG const struct launch_config *c, CUfunction f, void **args, void **extra
LAUNCH(cuLaunchKernelEx, 1, c == NULL ? NULL : c->stream, (CONFIG), (c, f, args, extra))
LAUNCH(cuLaunchKernelEx_ptsz, 1, c == NULL ? NULL : OWN(c->stream), (CONFIG), (c, f, args, extra))

LAUNCH(cuGraphLaunch, turns_wanted() ? graph_kernels(graph) : 1, stream, (CUgraphExec graph, CUstream stream),
       (graph, stream))
LAUNCH(cuGraphLaunch_ptsz, turns_wanted() ? graph_kernels(graph) : 1, OWN(stream), (CUgraphExec graph, CUstream stream),
       (graph, stream))

/* Anything else: called, and then something is done if that went well and there are turns. */
#define AFTER(name, declared, passed, then) \
    BEGIN(name, declared); \
    BEGIN(name, declared) { \
        CUresult result = DRIVER(name, declared, passed); \
        if (result == CUDA_SUCCESS && turns_wanted()) { \
            then; \
        } \
        return result; \
    }

#define OLD_WAY CUgraphExec *made, CUgraph graph, CUgraphNode *wrong, char *log, size_t size
AFTER(cuGraphInstantiate, (OLD_WAY), (made, graph, wrong, log, size), graph_made(*made, graph))
AFTER(cuGraphInstantiate_v2, (OLD_WAY), (made, graph, wrong, log, size), graph_made(*made, graph))
AFTER(cuGraphInstantiateWithFlags, (CUgraphExec *made, CUgraph graph, unsigned long long flags), (made, graph, flags),
      graph_made(*made, graph))
AFTER(cuGraphInstantiateWithParams, (CUgraphExec *made, CUgraph graph, void *how), (made, graph, how),
      graph_made(*made, graph))
AFTER(cuGraphInstantiateWithParams_ptsz, (CUgraphExec *made, CUgraph graph, void *how), (made, graph, how),
      graph_made(*made, graph))
AFTER(cuGraphExecDestroy, (CUgraphExec graph), (graph), graph_gone(graph))

AFTER(cuCtxSynchronize, (void), (), gate_step())
AFTER(cuStreamSynchronize, (CUstream stream), (stream), gate_step())
AFTER(cuStreamSynchronize_ptsz, (CUstream stream), (stream), gate_step())
AFTER(cuEventSynchronize, (CUevent event), (event), gate_step())

/* Streams that record a graph: nobody waits for the GPU from before the first launch into them until after the last. */
static CUresult begun(CUresult result) {
    if (result == CUDA_SUCCESS) gate_capturing(1);
    gate_unlock();
    return result;
}

#define RECORD(name, declared, passed) \
    BEGIN(name, declared); \
    BEGIN(name, declared) { \
        if (!turns_wanted()) return DRIVER(name, declared, passed); \
        gate_lock(); \
        return begun(DRIVER(name, declared, passed)); \
    }

#define INTO_GRAPH CUstream s, CUgraph graph, const CUgraphNode *after, const void *edges, size_t count, int mode
RECORD(cuStreamBeginCapture_v2, (CUstream s, int mode), (s, mode))
RECORD(cuStreamBeginCapture_v2_ptsz, (CUstream s, int mode), (s, mode))
RECORD(cuStreamBeginCaptureToGraph, (INTO_GRAPH), (s, graph, after, edges, count, mode))
RECORD(cuStreamBeginCaptureToGraph_ptsz, (INTO_GRAPH), (s, graph, after, edges, count, mode))

/* It also ends with an error, unless the stream recorded nothing. */
#define RECORDED(name, stream) \
    CUresult name(CUstream s, CUgraph *graph); \
    EXPORTED CUresult name(CUstream s, CUgraph *graph) { \
        if (!turns_wanted()) return DRIVER(name, (CUstream, CUgraph *), (s, graph)); \
        gate_lock(); \
        int was = is_capturing(stream); \
        CUresult result = DRIVER(name, (CUstream, CUgraph *), (s, graph)); \
        if (was && !is_capturing(stream)) gate_capturing(-1); \
        gate_unlock(); \
        return result; \
    }

RECORDED(cuStreamEndCapture, s)
RECORDED(cuStreamEndCapture_ptsz, OWN(s))

/* Contexts that end take with them what they have of the memory, and cannot be waited for any more. */
static CUcontext _Atomic primary[64]; /* by device */

static void forget(CUcontext context) {
    gate_lock();
    gate_forget(context);
    gate_unlock();
    memory_forget(context);
}

static CUcontext primary_of(CUdevice device) { return device >= 0 && device < 64 ? primary[device] : NULL; }

static int is_active(CUdevice device) {
    CUresult (*state_of)(CUdevice, unsigned *, int *) =
        (CUresult(*)(CUdevice, unsigned *, int *))driver_named("cuDevicePrimaryCtxGetState");
    unsigned flags;
    int active = 1;
    return state_of == NULL || state_of(device, &flags, &active) != CUDA_SUCCESS || active;
}

CUresult cuCtxDestroy_v2(CUcontext context);
EXPORTED CUresult cuCtxDestroy_v2(CUcontext context) {
    if (turns_wanted()) forget(context); /* before its address is another's */
    return DRIVER(cuCtxDestroy_v2, (CUcontext), (context));
}

AFTER(cuDevicePrimaryCtxRetain, (CUcontext *context, CUdevice device), (context, device),
      if (device >= 0 && device < 64) primary[device] = *context)
AFTER(cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device), if (!is_active(device)) forget(primary_of(device)))
AFTER(cuDevicePrimaryCtxReset_v2, (CUdevice device), (device), forget(primary_of(device)))

/* Memory: no more than the job may use. */
#define ALLOCATE(name, kind, key, bytes, declared, passed) \
    BEGIN(name, declared); \
    BEGIN(name, declared) { \
        if (!turns_wanted()) return DRIVER(name, declared, passed); \
        gate_meet(); \
        if (!memory_take(bytes)) return CUDA_ERROR_OUT_OF_MEMORY; \
        CUresult result = DRIVER(name, declared, passed); \
        memory_taken(result, kind, result == CUDA_SUCCESS ? key : 0, bytes); \
        return result; \
    }

ALLOCATE(cuMemAlloc_v2, POINTER, *p, size, (CUdeviceptr *p, size_t size), (p, size))
ALLOCATE(cuMemAllocPitch_v2, POINTER, *p, width *height, /* at least */
         (CUdeviceptr *p, size_t *pitch, size_t width, size_t height, unsigned element), (p, pitch, width, height, element))
ALLOCATE(cuMemAllocManaged, POINTER, *p, size, (CUdeviceptr *p, size_t size, unsigned flags), (p, size, flags))
ALLOCATE(cuMemAllocAsync, POINTER, *p, size, (CUdeviceptr *p, size_t size, CUstream s), (p, size, s))
ALLOCATE(cuMemAllocAsync_ptsz, POINTER, *p, size, (CUdeviceptr *p, size_t size, CUstream s), (p, size, s))
#define FROM_POOL CUdeviceptr *p, size_t size, CUmemPool pool, CUstream s
ALLOCATE(cuMemAllocFromPoolAsync, POINTER, *p, size, (FROM_POOL), (p, size, pool, s))
ALLOCATE(cuMemAllocFromPoolAsync_ptsz, POINTER, *p, size, (FROM_POOL), (p, size, pool, s))
#define CREATED CUmemHandle *h, size_t size, const struct allocation *a, unsigned long long flags
ALLOCATE(cuMemCreate, HANDLE, *h, a != NULL && a->location.type == ON_DEVICE ? size : 0, (CREATED), (h, size, a, flags))

/* Said before it is freed: afterwards its address may be another's already. */
#define GIVE(name, kind, declared, passed, key) \
    BEGIN(name, declared); \
    BEGIN(name, declared) { \
        if (turns_wanted()) memory_freed(kind, key); \
        return DRIVER(name, declared, passed); \
    }

GIVE(cuMemFree_v2, POINTER, (CUdeviceptr p), (p), p)
GIVE(cuMemFreeAsync, POINTER, (CUdeviceptr p, CUstream s), (p, s), p)
GIVE(cuMemFreeAsync_ptsz, POINTER, (CUdeviceptr p, CUstream s), (p, s), p)
GIVE(cuMemRelease, HANDLE, (CUmemHandle h), (h), h)

AFTER(cuMemGetInfo_v2, (size_t *available, size_t *total), (available, total), memory_clip(available, total))

/* What is looked up by these. */
#define LOOKED_UP const char *name, void **found, int version, unsigned long long flags
AFTER(cuGetProcAddress, (LOOKED_UP), (name, found, version, flags), stand_in(name, found, version, flags))
AFTER(cuGetProcAddress_v2, (LOOKED_UP, int *how), (name, found, version, flags, how),
      stand_in(name, found, version, flags))

#define STANDS_IN(name) (void *)name,
void *const stand_ins[HOOKED] = {HOOKS(STANDS_IN)};
