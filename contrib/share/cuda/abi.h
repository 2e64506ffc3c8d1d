/* What of CUDA's driver interface is hooked, by its binary interface: NVIDIA's header may not be passed on, and a node
 * that builds this needs no CUDA. Handles are opaque, and a name's suffix (_v2, _ptsz) is part of the function. */
#ifndef SYNERGY_CUDA_ABI_H
#define SYNERGY_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NOT_FOUND = 500 };

typedef int CUdevice;
typedef unsigned long long CUdeviceptr, CUmemHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPool_st *CUmemPool;

/* The stream that stands for NULL where each thread has its own. */
#define PER_THREAD ((CUstream)2)

enum { NODE_KERNEL = 0, NODE_GRAPH = 4 };

struct launch_config {
    unsigned grid[3], block[3], shared_bytes;
    CUstream stream;
    void *attributes;
    unsigned count;
};

/* The beginning of CUmemAllocationProp. */
struct allocation {
    int type, shared_as;
    struct { int type, id; } location;
};
enum { ON_DEVICE = 1 };

#endif
