/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the plugin reads: values of options, comments, annotations, numbers. All of it may come from a user who means harm, so everything here is a
 * function of bytes, without memory of its own, without locale, and tested without Slurm.
 */
#ifndef SYNERGY_WORDS_H
#define SYNERGY_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Each returns NULL when the value is right, else what would be right. They say what the daemon says (bridge/directive). A value of NULL is the
 * word without one.
 */
const char *check_profile(const char *value);
const char *check_checkpoint(const char *value);
const char *check_length(const char *value);
const char *check_progress(const char *value);
const char *check_env(const char *value);
const char *check_share(const char *value);
const char *check_keeping(const char *value); /* of cores and of memory */

/* read_number reads one to nine digits without a leading zero, and nothing else. */
#define MAX_NUMBER 999999999L
bool read_number(const char *text, long *number);

/* is_job says whether a text is the number of a job: one to ten digits without a leading zero. In a federation they have ten. */
bool is_job(const char *text);

/* run is what one run of a job has of the daemon's: NONE is "not known". */
struct run {
	long round;    /* that wrote the job's annotation last, which is the one that started it */
	long restarts; /* how often Slurm has restarted the job */
	bool told;     /* its user wants its tasks to find in their environment what they were given */
	bool measure;  /* the daemon wants the job to measure itself in it */
};

#define NONE (-1L)

/* read_managed says whether a job with this comment and this extra field is managed and may be told or measured, and what they say of the run. */
bool read_managed(const char *comment, const char *extra, const char *job, struct run *run);

/* The note that a node keeps of a run, as text; write_note says how long it is, 0 when there is no room. */
#define NOTE_SIZE 64
size_t write_note(const struct run *run, char *text, size_t size);
bool read_note(const char *text, struct run *run);

/* in_list says whether a list with spaces between its entries has the entry NAME=VALUE. */
bool in_list(const char *list, const char *name, const char *value);

#endif
