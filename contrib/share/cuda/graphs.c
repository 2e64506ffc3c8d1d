/* How many kernels a graph launches. That is counted when it is made ready, since a graph that is ready does not tell. */
#include "hooks.h"

#include <pthread.h>
#include <stdlib.h>

#define DEEPEST 8 /* graphs in graphs */
#define BUCKETS 256

struct ready {
    CUgraphExec graph;
    unsigned kernels;
    struct ready *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ready *known[BUCKETS];

static struct ready **place(CUgraphExec graph) {
    struct ready **at = &known[((uintptr_t)graph >> 4) % BUCKETS];
    while (*at != NULL && (*at)->graph != graph) at = &(*at)->next;
    return at;
}

static unsigned kernels_in(CUgraph graph, int depth);

static unsigned kernels_of(CUgraphNode node, int depth) {
    CUresult (*type_of)(CUgraphNode, int *) = (CUresult(*)(CUgraphNode, int *))driver_named("cuGraphNodeGetType");
    CUresult (*graph_of)(CUgraphNode, CUgraph *) =
        (CUresult(*)(CUgraphNode, CUgraph *))driver_named("cuGraphChildGraphNodeGetGraph");
    CUgraph child;
    int type;
    if (type_of == NULL || type_of(node, &type) != CUDA_SUCCESS) return 0;
    if (type == NODE_GRAPH && graph_of != NULL && graph_of(node, &child) == CUDA_SUCCESS)
        return kernels_in(child, depth + 1);
    return type == NODE_KERNEL;
}

static unsigned kernels_in(CUgraph graph, int depth) {
    CUresult (*nodes_of)(CUgraph, CUgraphNode *, size_t *) =
        (CUresult(*)(CUgraph, CUgraphNode *, size_t *))driver_named("cuGraphGetNodes");
    size_t count = 0;
    if (depth > DEEPEST || nodes_of == NULL || nodes_of(graph, NULL, &count) != CUDA_SUCCESS || count == 0) return 0;
    CUgraphNode *nodes = calloc(count, sizeof *nodes);
    unsigned kernels = 0;
    if (nodes != NULL && nodes_of(graph, nodes, &count) == CUDA_SUCCESS)
        for (size_t i = 0; i < count; i++) kernels += kernels_of(nodes[i], depth);
    free(nodes);
    return kernels;
}

void graph_made(CUgraphExec made, CUgraph of) {
    unsigned kernels = kernels_in(of, 0);
    pthread_mutex_lock(&lock);
    struct ready **at = place(made);
    if (*at == NULL && (*at = calloc(1, sizeof **at)) != NULL) (*at)->graph = made;
    if (*at != NULL) (*at)->kernels = kernels;
    pthread_mutex_unlock(&lock);
}

void graph_gone(CUgraphExec graph) {
    pthread_mutex_lock(&lock);
    struct ready **at = place(graph), *gone = *at;
    if (gone != NULL) *at = gone->next;
    pthread_mutex_unlock(&lock);
    free(gone);
}

/* One that nobody saw being made is taken for a kernel. What has no kernels is something for the GPU all the same. */
unsigned graph_kernels(CUgraphExec graph) {
    pthread_mutex_lock(&lock);
    const struct ready *found = *place(graph);
    unsigned kernels = found == NULL ? 0 : found->kernels;
    pthread_mutex_unlock(&lock);
    return kernels > 0 ? kernels : 1;
}
