/* Says when kernels may be launched. A thread of our own has the turn, as the broker's client: it asks when somebody wants
 * to launch, and when it has to let go it shuts the gate, waits until nobody is between the gate and the driver, waits
 * for all that the program's contexts have on the GPU, and only then says so. So it does not matter what the program's
 * own threads do meanwhile.
 *
 * The gate is one word: how many kernels may still be launched, and how many threads are about to. A launch takes from
 * the first and adds to the second in one step, and takes back the second after it: no lock, and no moment at which a
 * thread has looked and has not been counted. At 0 it is shut. */
#define _GNU_SOURCE
#include "hooks.h"
#include "pace.h"
#include "synergy_cuda.h"
#include "synergy_turn.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define IDLE_US 2000     /* without a launch, the turn is given back */
#define RETRY_US 100000  /* where there is no broker */
#define WAKE_US 10000    /* within which a thread wakes */
#define UNBOUNDED (1U << 30)
#define CONTEXTS 64

enum state { SHUT, MANAGED, FREE, ENDED };

#define INSIDE (1ULL << 32)
static _Atomic unsigned long long gate;
#define LEFT(word) ((unsigned)(word))

static _Atomic unsigned changes;   /* of the contexts */
static atomic_int captures;        /* streams that record a graph; changed under the lock */
static _Thread_local int inside;
static _Thread_local CUcontext seen;
static _Thread_local unsigned seen_changes;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked = PTHREAD_COND_INITIALIZER, opened = PTHREAD_COND_INITIALIZER;
static atomic_int queueing; /* for the lock */

/* All below is the lock's, but for the turn, which is the keeper's alone. */
static enum state state;
static int started, met, leaving;
static atomic_int yielding;            /* the turn is over, and will be given back; set without the lock, too */
static unsigned wanting;               /* threads that wait for the gate */
static unsigned filled, most;          /* what the gate was last opened for; the largest ever */
static unsigned long long spent, more; /* kernels before that; those of graphs, and of the time of a capture */
static unsigned long long drained;     /* kernels of which is known that the GPU has done them */
static unsigned long long step_counted, waits, grants, unmanaged;
static long long filled_at;
static int paused;                     /* since then the GPU may have had nothing to do */
static struct pace pace;
static CUcontext contexts[CONTEXTS];
static unsigned context_count;
static struct synergy_turn turn = {.fd = -1};

static long long now_us(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000LL + at.tv_nsec / 1000;
}

/* A thread that launches without end has the lock while it waits for the GPU, and would take it again before anybody who
 * was woken for it. So it first lets those go before it who came meanwhile. */
static void acquire(void) {
    atomic_fetch_add(&queueing, 1);
    pthread_mutex_lock(&lock);
    atomic_fetch_sub(&queueing, 1);
}

static void release(void) { pthread_mutex_unlock(&lock); }

static void after_others(void) {
    while (atomic_load(&queueing) > 0) {
        release();
        sched_yield();
        pthread_mutex_lock(&lock);
    }
}

static unsigned long long launched(void) { return spent + more + filled - LEFT(atomic_load(&gate)); }

/* Nobody is let in any more, and nobody is about to launch. */
static void shut(void) {
    unsigned left = LEFT(atomic_fetch_and(&gate, ~(INSIDE - 1)));
    spent += filled - left;
    filled = 0;
    while (atomic_load(&gate) >= INSIDE) usleep(20); /* a launch takes less, if the driver's queue is not full */
}

static void open_for(unsigned kernels) {
    filled = kernels;
    filled_at = now_us();
    paused = 0;
    atomic_fetch_or(&gate, kernels);
}

/* Waits for all that was launched in any context, from whatever thread and into whatever stream. */
static void wait_for_gpu(void) {
    CUresult (*push)(CUcontext) = (CUresult(*)(CUcontext))driver_named("cuCtxPushCurrent_v2");
    CUresult (*pop)(CUcontext *) = (CUresult(*)(CUcontext *))driver_named("cuCtxPopCurrent_v2");
    if (push == NULL || pop == NULL) return;
    for (unsigned i = 0; i < context_count; i++) {
        CUcontext popped;
        if (push(contexts[i]) != CUDA_SUCCESS) continue;
        DRIVER(cuCtxSynchronize, (void), ());
        pop(&popped);
    }
}

/* Tells the pace of what was launched since it was last told. */
static void count_step(void) {
    pace_launched(&pace, (double)(launched() - step_counted));
    step_counted = launched();
}

/* With the gate shut: waits for the GPU, if there is something to wait for. Says how many kernels that were. */
static unsigned long long drain(void) {
    unsigned long long kernels = launched() - drained;
    if (kernels == 0) return 0;
    wait_for_gpu();
    waits++;
    drained += kernels;
    count_step();
    return kernels;
}

/* What the driver takes to see that the GPU has nothing to do; the shortest, since a busy machine makes it longer. */
static void time_a_wait(void) {
    long long best = 0;
    for (int i = 0; i < 5; i++) {
        long long began = now_us();
        wait_for_gpu();
        long long took = now_us() - began;
        if (i == 0 || took < best) best = took;
    }
    pace_waited(&pace, best < 1 ? 1 : (double)best);
}

/* The GPU has done all that the gate was open for, or there is no turn to be kept short. */
static void refill(void) {
    shut();
    if (state != MANAGED) {
        open_for(UNBOUNDED);
        return;
    }
    unsigned long long kernels = drain();
    if (kernels > 0 && !paused) pace_ran(&pace, (double)kernels, (double)(now_us() - filled_at));
    if (kernels > 0 && pace.wait_us <= 0) time_a_wait();
    unsigned bound = pace_bound(&pace);
    if (bound > most) most = bound;
    open_for(bound);
}

static void remember(CUcontext context) {
    seen = context;
    seen_changes = atomic_load(&changes);
    for (unsigned i = 0; i < context_count; i++)
        if (contexts[i] == context) return;
    if (context != NULL && context_count < CONTEXTS) contexts[context_count++] = context;
}

/* With the lock held. Takes at most what the gate is ever opened for: a graph that has more goes alone. */
static int take(unsigned kernels) {
    if (atomic_load(&captures) > 0) { /* the GPU cannot be waited for until it is recorded */
        atomic_fetch_add(&gate, INSIDE);
        more += kernels;
        return 1;
    }
    unsigned long long word = atomic_load(&gate);
    unsigned part = kernels < filled ? kernels : filled;
    while (part > 0 && LEFT(word) >= part)
        if (atomic_compare_exchange_weak(&gate, &word, word + INSIDE - part)) {
            more += kernels - part;
            return 1;
        }
    return 0;
}

static void start(void);

static int wait_for_turn(unsigned kernels, CUstream stream) {
    if (is_capturing(stream)) return 0;
    CUcontext context = current_context();
    acquire();
    after_others();
    start();
    remember(context);
    while (state != ENDED) {
        int open = state == FREE || (state == MANAGED && !atomic_load(&yielding));
        if (open && take(kernels)) break;
        if (open) {
            refill();
            continue;
        }
        wanting++;
        pthread_cond_signal(&asked);
        pthread_cond_wait(&opened, &lock);
        if (--wanting == 0) pthread_cond_signal(&asked);
    }
    inside = state != ENDED;
    release();
    return inside;
}

int gate_enter(unsigned kernels, CUstream stream) {
    if (!turns_wanted() || inside) return 0;
    unsigned long long word = atomic_load_explicit(&gate, memory_order_relaxed);
    if (seen_changes == atomic_load_explicit(&changes, memory_order_relaxed) && seen == current_context())
        while (LEFT(word) >= kernels)
            if (atomic_compare_exchange_weak(&gate, &word, word + INSIDE - kernels)) return inside = 1;
    return wait_for_turn(kernels, stream);
}

void gate_leave(int entered) {
    if (!entered) return;
    inside = 0;
    atomic_fetch_sub(&gate, INSIDE);
}

void gate_step(void) {
    if (!turns_wanted()) return;
    acquire();
    count_step();
    pace_step(&pace);
    paused = 1;
    release();
}

void gate_lock(void) { acquire(); }
void gate_unlock(void) { release(); }

void gate_capturing(int by) {
    if (by > 0) shut(); /* so that each launch asks whether it is recorded */
    atomic_fetch_add(&captures, by);
    pthread_cond_broadcast(&opened);
    pthread_cond_signal(&asked);
}

int is_capturing(CUstream stream) {
    if (atomic_load(&captures) == 0) return 0;
    CUresult (*ask)(CUstream, int *) = (CUresult(*)(CUstream, int *))driver_named("cuStreamIsCapturing");
    int how = 0;
    return ask != NULL && ask(stream, &how) == CUDA_SUCCESS && how != 0;
}

void gate_forget(CUcontext context) {
    unsigned kept = 0;
    for (unsigned i = 0; i < context_count; i++)
        if (contexts[i] != context && context != NULL) contexts[kept++] = contexts[i];
    context_count = kept;
    atomic_fetch_add(&changes, 1);
}

/* The keeper, from here on. */

/* Gives the GPU back. A graph that is being recorded is waited for: to wait for the GPU meanwhile would spoil it. */
static void give_back(void) {
    atomic_store(&yielding, 1);
    while (atomic_load(&captures) > 0 && !leaving) pthread_cond_wait(&asked, &lock);
    if (leaving) return;
    shut();
    drain();
    synergy_turn_end(&turn);
    state = SHUT;
}

/* Whether nothing was launched for a while, and the GPU had nothing to do either. */
static int is_idle(unsigned long long before) {
    if (launched() != before || wanting > 0 || atomic_load(&captures) > 0) return 0;
    long long began = now_us();
    wait_for_gpu();
    return launched() == before && wanting == 0 && now_us() - began < IDLE_US / 2;
}

/* Waits on the keeper's condition until a moment of the monotonic clock. */
static void wait_until(long long us) {
    struct timespec at = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    pthread_cond_timedwait(&asked, &lock, &at);
}

/* However short the turn is, those who have waited for it launch something in it. */
static void let_in(enum state how) {
    state = how;
    atomic_store(&yielding, 0);
    pthread_cond_broadcast(&opened);
    for (long long end = now_us() + WAKE_US; wanting > 0 && !leaving && now_us() < end;) wait_until(end);
}

/* Waits until the turn has to be given back, or nothing is launched any more. That it has to is said before the lock is
 * there: however many threads want that, each lets go of it at once. */
static void keep_turn(void) {
    for (int wanted = 0; !wanted && !leaving;) {
        unsigned long long before = launched();
        release();
        wanted = synergy_turn_wanted(&turn, IDLE_US);
        if (wanted) atomic_store(&yielding, 1);
        acquire();
        if (!wanted && !leaving) wanted = is_idle(before);
    }
}

static void hold(void) {
    let_in(MANAGED);
    keep_turn();
    memory_cap(turn.may_use_mib);
    give_back();
}

/* Without a broker the program runs on, and asks again when it has launched something and it is time to. */
static void run_on(void) {
    let_in(FREE);
    unsigned long long before = launched();
    long long again = now_us() + RETRY_US;
    if (turn.fd < 0 && turn.retry_at > again) again = turn.retry_at;
    while (!leaving && (now_us() < again || launched() == before || atomic_load(&captures) > 0)) {
        if (now_us() >= again) again = now_us() + RETRY_US;
        wait_until(again);
    }
    if (leaving) return;
    shut();
    if (turn.fd >= 0) drain(); /* there is one now, who may have others there */
    state = SHUT;
}

static void keep_turns(void) {
    while (!leaving) {
        if (wanting == 0) {
            pthread_cond_wait(&asked, &lock);
            continue;
        }
        double step = pace_bound(&pace) * pace.kernel_us;
        release();
        synergy_turn_begin(&turn, step > 0 ? (long long)step + 1 : 5000);
        acquire();
        if (leaving) return;
        memory_cap(turn.may_use_mib);
        grants = (unsigned long long)turn.grants;
        unmanaged = (unsigned long long)turn.unmanaged;
        if (turn.holding)
            hold();
        else
            run_on();
    }
}

static void *keep(void *nothing) {
    synergy_turn_open(&turn, NULL, 0);
    acquire();
    memory_cap(turn.may_use_mib);
    met = 1;
    pthread_cond_broadcast(&opened);
    keep_turns();
    release();
    return nothing;
}

/* A child of fork has no keeper, no connection and no CUDA: to the broker it is nobody. */
static void in_child(void) {
    if (!started) return;
    switch_off();
    if (turn.fd >= 0) close(turn.fd);
}

/* Before the driver takes itself apart. The socket is closed by the kernel. */
static void at_end(void) {
    if (!turns_wanted()) return;
    acquire();
    if (state == MANAGED && atomic_load(&captures) == 0) wait_for_gpu();
    leaving = 1;
    state = ENDED;
    switch_off();
    pthread_cond_broadcast(&asked);
    pthread_cond_broadcast(&opened);
    release();
}

/* Starts the keeper, whom no signal of the program's shall reach. Without one the program runs on. */
static void start(void) {
    if (started) return;
    started = 1;
    sigset_t all, before;
    pthread_t keeper;
    pthread_condattr_t by;
    pthread_condattr_init(&by);
    pthread_condattr_setclock(&by, CLOCK_MONOTONIC);
    pthread_cond_init(&asked, &by); /* nobody but the keeper waits for it */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int failed = pthread_create(&keeper, NULL, keep, NULL) != 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed || atexit(at_end) != 0 || pthread_atfork(NULL, NULL, in_child) != 0) {
        switch_off();
        leaving = met = 1;
        state = ENDED;
        return;
    }
    pthread_detach(keeper);
}

void gate_meet(void) {
    if (!turns_wanted()) return;
    acquire();
    start();
    while (!met && state != ENDED) pthread_cond_wait(&opened, &lock);
    release();
}

EXPORTED void synergy_cuda_counts(struct synergy_cuda_counts *c) {
    acquire();
    c->kernels = launched();
    c->waits = waits;
    c->grants = grants;
    c->unmanaged = unmanaged;
    c->bound = pace_bound(&pace);
    c->most = most;
    c->kernel_us = pace.kernel_us;
    c->step = pace.kernels;
    c->memory = memory_used();
    release();
}
