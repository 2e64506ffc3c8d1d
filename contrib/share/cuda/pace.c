#include "pace.h"

#define MEMORY 20          /* steps, or waits, after which most of what was learned is new */
#define LONGEST_US 5000.0  /* what is in the queue takes no longer */
#define USUAL_WAIT_US 11.5 /* measured by others on a GPU; until we know */
#define MOST 100000.0

/* A value that is much larger than those before is a pause of the program, a module that was loaded or a stopped process
 * more often than it is news, so it counts for twice the mean at most. */
static void learn(double *mean, double value) {
    if (*mean <= 0)
        *mean = value;
    else
        *mean += ((value > 2 * *mean ? 2 * *mean : value) - *mean) / MEMORY;
}

void pace_waited(struct pace *p, double us) {
    if (us > 0) learn(&p->wait_us, us);
}

void pace_ran(struct pace *p, double kernels, double us) {
    if (kernels > 0 && us > 0) learn(&p->kernel_us, us / kernels);
}

void pace_launched(struct pace *p, double kernels) { p->step += kernels; }

void pace_step(struct pace *p) {
    if (p->step > 0) learn(&p->kernels, p->step);
    p->step = 0;
}

/* The root of x >= 0 by Newton, who is done long before: a program shall not need libm for us. */
static double root(double x) {
    double r = x > 1 ? x : 1;
    for (int i = 0; i < 60; i++) r = (r + x / r) / 2;
    return r;
}

unsigned pace_bound(const struct pace *p) {
    if (p->kernel_us <= 0) return 1; /* the first kernel may be of any length */
    double kernels = p->step > p->kernels ? p->step : p->kernels;
    double n = root((p->wait_us > 0 ? p->wait_us : USUAL_WAIT_US) * kernels / p->kernel_us) + 0.5;
    if (n * p->kernel_us > LONGEST_US) n = LONGEST_US / p->kernel_us;
    return n < 1 ? 1 : n > MOST ? (unsigned)MOST : (unsigned)n;
}
