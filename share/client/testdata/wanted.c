/* wanted SOCKET: begins, says so, and at the end of its turn says that. */
#include <stdio.h>

#include "synergy_turn.h"

int main(int argc, char **argv) {
    struct synergy_turn t = {.drain = NULL};
    if (argc != 2 || synergy_turn_open(&t, argv[1], 0) < 0) return 2;
    synergy_turn_begin(&t, 0);
    if (synergy_turn_wanted(&t, 0)) return 3;
    puts("began");
    fflush(stdout);
    while (!synergy_turn_wanted(&t, 1000)) {}
    puts("wanted");
    fflush(stdout);
    synergy_turn_end(&t);
    return 0;
}
