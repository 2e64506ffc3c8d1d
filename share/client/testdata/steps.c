/* steps SOCKET STEPS STEP_US GAP_US end|next|fork FILE: takes turns; FILE must not be there in a step, and is made by it. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "synergy_turn.h"

static int drained;
static void drain(void *by) { *(int *)by += 1; }

int main(int argc, char **argv) {
    struct synergy_turn t = {.drain = drain, .of_drain = &drained};
    if (argc != 7) return 2;
    if (synergy_turn_open(&t, argv[1], 90000) < 0) return 75;
    int next = strcmp(argv[5], "next") == 0;
    for (int i = 0, steps = atoi(argv[2]); i < steps; i++) {
        if (next && i > 0)
            synergy_turn_next(&t, atoi(argv[3]));
        else
            synergy_turn_begin(&t, atoi(argv[3]));
        if (strcmp(argv[5], "fork") == 0) {
            if (fork() == 0) {
                for (int k = 0; k < 3; k++) {
                    synergy_turn_end(&t);
                    synergy_turn_begin(&t, 0);
                }
                printf("child\n");
                fflush(stdout);
                sleep(30);
            }
            sleep(30);
        }
        if (!t.unmanaged) {
            int fd = open(argv[6], O_CREAT | O_EXCL | O_WRONLY, 0600);
            if (fd < 0) return 3; /* another uses the GPU */
            close(fd);
        }
        if (atoi(argv[3])) usleep((useconds_t)atoi(argv[3]));
        unlink(argv[6]);
        if (!next || i == steps - 1) synergy_turn_end(&t);
        if (atoi(argv[4])) usleep((useconds_t)atoi(argv[4]));
    }
    printf("{\"steps\":%lld,\"grants\":%lld,\"unmanaged\":%lld,\"waited_us\":%lld,\"drained\":%d}\n", t.steps, t.grants,
           t.unmanaged, t.waited_us, drained);
    synergy_turn_close(&t);
    return 0;
}
