/* pace WAIT_US KERNELS KERNEL_US: the bound after forty steps like that; pace pause: with a second of nothing in one. */
#include "pace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void steps(struct pace *p, double wait, double kernels, double kernel) {
    for (int i = 0; i < 40; i++) {
        pace_waited(p, wait);
        pace_ran(p, 10, 10 * kernel);
        pace_launched(p, kernels);
        pace_step(p);
    }
}

int main(int argc, char **argv) {
    struct pace p = {0};
    if (argc == 2 && strcmp(argv[1], "pause") == 0) {
        steps(&p, 11.5, 913, 104);
        pace_ran(&p, 10, 1e6);
    } else {
        steps(&p, atof(argv[1]), atof(argv[2]), atof(argv[3]));
    }
    printf("%u\n", pace_bound(&p));
    return 0;
}
