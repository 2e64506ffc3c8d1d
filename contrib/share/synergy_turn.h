/* Turns on a GPU that several jobs share, for programs in C and C++ (docs/sharing.md). POSIX and nothing else; compile
 * synergy_turn.c with your program, or both into a library.
 *
 *     struct synergy_turn turn = {.drain = drain};        // drain calls cudaDeviceSynchronize()
 *     if (synergy_turn_open(&turn, NULL, 0) < 0) ...
 *     for (...) {
 *         load(batch);                                    // another job has the GPU
 *         synergy_turn_begin(&turn, 0);
 *         train(batch);
 *         synergy_turn_end(&turn);
 *     }
 *     synergy_turn_close(&turn);
 *
 * There is no thread and no timer here, so nothing would give back a GPU that is kept while the program computes
 * elsewhere, and a broker that wants it would stop the program. Therefore synergy_turn_end gives it back each time, and
 * the next begin asks anew: less than 100 us. A program that goes on with the GPU at once says synergy_turn_next instead of
 * end and begin: it keeps the GPU while nobody wants it, for less than 2 us.
 *
 * Without a broker (SYNERGY_TURN_SOCK is not set), with one that is away, silent, stopped or refuses, the program runs
 * on. One thread at a time. A child of fork(2) has no part in its parent's turns. */
#ifndef SYNERGY_TURN_H
#define SYNERGY_TURN_H

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct synergy_turn {
    void (*drain)(void *); /* waits until the GPU has done what the program wanted of it; NULL: it has, at each end */
    void *of_drain;
    /* for people: what was done so far */
    long long steps, grants, unmanaged, waited_us;
    long may_use_mib; /* how much of the GPU's memory the job may use; 0: no broker has said */
    /* the rest is the library's */
    const char *path;
    pid_t pid;
    int fd, welcome, holding, granted, yield, code;
    long long seq, lease_end, began, used, usual, retry_at, pause;
    unsigned len;
    char line[4096];
};

/* Introduces the program to the broker at path; NULL: at SYNERGY_TURN_SOCK. memory_mib is how much of the GPU's memory it
 * will use at most; 0: not said. Returns -1 if that is more than it may, and 0 otherwise. */
int synergy_turn_open(struct synergy_turn *t, const char *path, long memory_mib);
/* Waits until the program may use the GPU, for about estimate_us; 0: as long as its steps were. All between begin and
 * end counts as use of the GPU. */
void synergy_turn_begin(struct synergy_turn *t, long long estimate_us);
/* The step is over, and the program goes on elsewhere. */
void synergy_turn_end(struct synergy_turn *t);
/* The step is over, and the next begins at once. */
void synergy_turn_next(struct synergy_turn *t, long long estimate_us);
/* Says whether what is held has to be given back, by synergy_turn_end: somebody wants it, its lease is over, or the broker
 * is gone. Waits for so long at most to be told. For who knows no steps. */
int synergy_turn_wanted(struct synergy_turn *t, long long within_us);
/* Gives back what is held. */
void synergy_turn_close(struct synergy_turn *t);

#ifdef __cplusplus
}
#endif
#endif
