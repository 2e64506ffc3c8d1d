/* cc -o example example.c synergy_turn.c && ./example 100
 *
 * Trains 100 steps: of each, 5 ms are spent on a batch and 10 ms on the GPU, which other jobs use, too. */
#define _DEFAULT_SOURCE
#include "synergy_turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void load(void) { usleep(5000); }
static void train(void) { usleep(10000); } /* with CUDA: kernels */

/* With CUDA: cudaDeviceSynchronize(). Here train() has waited already. */
static void drain(void *nothing) { (void)nothing; }

int main(int argc, char **argv) {
    struct synergy_turn turn = {.drain = drain};
    if (synergy_turn_open(&turn, NULL, 2000) < 0) {
        fprintf(stderr, "the GPU has no room for 2000 MiB\n");
        return 75;
    }
    for (int step = argc > 1 ? atoi(argv[1]) : 100; step > 0; step--) {
        load();
        synergy_turn_begin(&turn, 0);
        train();
        synergy_turn_end(&turn);
    }
    printf("%lld steps, %lld grants, %lld without a broker, %lld us waited\n", turn.steps, turn.grants, turn.unmanaged,
           turn.waited_us);
    synergy_turn_close(&turn);
    return 0;
}
