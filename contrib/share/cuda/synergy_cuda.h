/* libsynergy_cuda.so is put under a CUDA program by LD_PRELOAD, and has it take turns on its GPU without knowing of
 * them (docs/sharing.md). Who wants to know how it did looks this up by dlsym(RTLD_DEFAULT, "synergy_cuda_counts"). */
#ifndef SYNERGY_CUDA_H
#define SYNERGY_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

struct synergy_cuda_counts {
    unsigned long long kernels;   /* launched, those of graphs included */
    unsigned long long waits;     /* for the GPU, that the program did not ask for */
    unsigned long long grants;    /* of a turn */
    unsigned long long unmanaged; /* times at which no broker was there */
    unsigned long long memory;    /* of the GPU, that the program has, bytes */
    unsigned bound, most;         /* kernels that may be in the queue, now and at most so far */
    double kernel_us, step;       /* the mean kernel, and how many of them are between two waits of the program's own */
};

void synergy_cuda_counts(struct synergy_cuda_counts *counts);

#ifdef __cplusplus
}
#endif
#endif
