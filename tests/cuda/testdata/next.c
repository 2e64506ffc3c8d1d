/* A library that is behind another with a function of libc's name, and asks for the next: libc's. And a program of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef LIBRARY
int atoi(const char *text) {
    int (*next)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "atoi");
    if (next == NULL || next == atoi) return -1;
    return next(text);
}
#else
int main(int argc, char **argv) {
    (void)argv;
    puts(atoi(argc > 0 ? "17" : "0") == 17 ? "libc's" : "its own");
    return 0;
}
#endif
