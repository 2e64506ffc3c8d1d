/* After how many kernels a program waits for the GPU, so that whoever is more important waits for no more than those.
 * Each wait costs a, so a step of K kernels of length k costs a*K/N more, and keeps the other waiting for N*k: both
 * together are least at N = sqrt(a*K/k). K and k are learned while the program runs. */
#ifndef SYNERGY_CUDA_PACE_H
#define SYNERGY_CUDA_PACE_H

struct pace {
    double kernel_us; /* k; 0: not known */
    double kernels;   /* K; 0: not known */
    double wait_us;   /* a; 0: not known */
    double step;      /* kernels of the step that is under way */
};

void pace_waited(struct pace *p, double us);              /* for a GPU that had nothing to do */
void pace_ran(struct pace *p, double kernels, double us); /* from an empty queue to an empty queue */
void pace_launched(struct pace *p, double kernels);       /* some, within the step */
void pace_step(struct pace *p);                           /* the step is over */
unsigned pace_bound(const struct pace *p);                /* N, 1 at least */

#endif
