/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "words.h"

#include <stdio.h>
#include <string.h>

/* The limits of the contract: bridge/directive has the same. */
#define MAX_WORD 128
#define MAX_GRACE 3600
#define MAX_MEMORY 1024 /* GiB of a GPU */
#define MAX_SLO 600000 /* milliseconds */
#define MAX_LENGTH (10L * 365 * 24 * 3600) /* seconds */

static const char profile_right[] =
	"a profile's file name such as res18.json: letters, digits, dots, dashes and underscores, no path, at most 112 characters; "
	"or auto, for a job that measures itself";
static const char checkpoint_right[] =
	"a signal of USR1, USR2, HUP, INT and TERM, its grace of 1 to 3600 whole seconds where 60 are not right, "
	"and /steps where the tasks of srun are to have it and not the script, such as USR1@60 or USR1@60/steps";
static const char length_right[] = "a number and its unit s, m, h or d, such as 2.5h, more than nothing and at most ten years";
static const char progress_right[] = "no value: it says that the job will report";
static const char keeping_right[] = "keep, not to run with less than is asked for, or give, to leave that to the profile";
static const char share_right[] =
	"high or low, and where it is known mem= with the GiB of the GPU's memory that the job needs at most and slo= with whole milliseconds for a step, "
	"each once, such as high,mem=6,slo=50; at most 1024 GiB and 600000 ms";
static const char env_right[] = "on, to be told in variables what the job was given, or off, not to be measured either";

/* The C library's own tests of characters follow the locale. */
static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool ends_in(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);

	return length >= tail && strcmp(text + length - tail, end) == 0;
}

bool read_number(const char *text, long *number)
{
	long n = 0;
	size_t k;

	if (!text || !is_digit(text[0]) || (text[0] == '0' && text[1]))
		return false;
	for (k = 0; text[k]; k++) {
		if (k == 9 || !is_digit(text[k]))
			return false;
		n = n * 10 + (text[k] - '0');
	}
	*number = n;
	return true;
}

bool is_job(const char *text)
{
	size_t k = 0;

	if (!text || text[0] == '0')
		return false;
	while (k < 10 && is_digit(text[k]))
		k++;
	return k > 0 && !text[k];
}

const char *check_profile(const char *value)
{
	const char *c;

	if (value && strcmp(value, "auto") == 0)
		return NULL;
	if (!value || !is_alnum(value[0]) || strlen("synergy-profile=") + strlen(value) > MAX_WORD)
		return profile_right;
	for (c = value; *c; c++)
		if (!is_alnum(*c) && !strchr("._-", *c))
			return profile_right;
	/* The name before the ending is not empty: it begins with a letter or digit. */
	return strstr(value, "..") || !ends_in(value, ".json") ? profile_right : NULL;
}

static bool is_signal(const char *name, size_t length)
{
	static const char *const signals[] = { "USR1", "USR2", "HUP", "INT", "TERM" };
	size_t k;

	for (k = 0; k < sizeof(signals) / sizeof(signals[0]); k++)
		if (strlen(signals[k]) == length && strncmp(signals[k], name, length) == 0)
			return true;
	return false;
}

/* is_grace reads the seconds in the first bytes of a text. */
static bool is_grace(const char *text, size_t length)
{
	char seconds[8];
	long grace;

	if (length >= sizeof(seconds))
		return false;
	memcpy(seconds, text, length);
	seconds[length] = '\0';
	return read_number(seconds, &grace) && grace >= 1 && grace <= MAX_GRACE;
}

const char *check_checkpoint(const char *value)
{
	size_t all, length;

	if (!value)
		return NULL;
	all = strlen(value);
	if (ends_in(value, "/steps"))
		all -= strlen("/steps");
	length = strcspn(value, "@/");
	if (!is_signal(value, length))
		return checkpoint_right;
	if (length == all)
		return NULL;
	return value[length] == '@' && is_grace(value + length + 1, all - length - 1) ? NULL : checkpoint_right;
}

static long seconds_in(char unit)
{
	switch (unit) {
	case 's': return 1;
	case 'm': return 60;
	case 'h': return 3600;
	case 'd': return 24 * 3600;
	}
	return 0;
}

/* read_digits reads one to nine digits, which may begin with zeros, and says how many. */
static size_t read_digits(const char *text, long *number)
{
	size_t k;

	*number = 0;
	for (k = 0; k < 9 && is_digit(text[k]); k++)
		*number = *number * 10 + (text[k] - '0');
	return k;
}

const char *check_length(const char *value)
{
	long whole, part = 0, unit, most;
	size_t digits, k;

	if (!value || !(k = read_digits(value, &whole)))
		return length_right;
	if (value[k] == '.') {
		if (!(digits = read_digits(value + k + 1, &part)))
			return length_right;
		k += 1 + digits;
	}
	unit = seconds_in(value[k]);
	if (!unit || value[k + 1])
		return length_right;
	most = MAX_LENGTH / unit; /* a whole number for each unit */
	return (whole || part) && (whole < most || (whole == most && !part)) ? NULL : length_right;
}

const char *check_progress(const char *value)
{
	return value ? progress_right : NULL;
}

const char *check_env(const char *value)
{
	return value && (strcmp(value, "on") == 0 || strcmp(value, "off") == 0) ? NULL : env_right;
}

const char *check_keeping(const char *value)
{
	return value && (strcmp(value, "keep") == 0 || strcmp(value, "give") == 0) ? NULL : keeping_right;
}

/* is_memory reads GiB, of at most six digits and three behind the point. */
static bool is_memory(const char *text, size_t length)
{
	long whole, part = 0;
	size_t digits = read_digits(text, &whole), more = 0;

	if (digits < 1 || digits > 6)
		return false;
	if (digits < length) {
		if (text[digits] != '.')
			return false;
		more = read_digits(text + digits + 1, &part);
		if (more < 1 || more > 3 || digits + 1 + more != length)
			return false;
	}
	return (whole || part) && (whole < MAX_MEMORY || (whole == MAX_MEMORY && !part));
}

static bool is_slo(const char *text, size_t length)
{
	long slo;

	return text[0] != '0' && read_digits(text, &slo) == length && slo >= 1 && slo <= MAX_SLO;
}

const char *check_share(const char *value)
{
	bool memory = false, slo = false, right; /* each is said once */
	size_t length;

	if (!value)
		return share_right;
	length = strcspn(value, ",");
	if (!(length == 4 && strncmp(value, "high", 4) == 0) && !(length == 3 && strncmp(value, "low", 3) == 0))
		return share_right;
	while (*(value += length)) {
		value++; /* the comma */
		length = strcspn(value, ",");
		right = strncmp(value, "mem=", 4) == 0 ? !memory && (memory = is_memory(value + 4, length - 4)) :
						 strncmp(value, "slo=", 4) == 0 && !slo && (slo = is_slo(value + 4, length - 4));
		if (!right)
			return share_right;
	}
	return NULL;
}

/* Words of a comment end where the gate and the daemon end them. */
#define BETWEEN_WORDS ", \t\n\v\f\r"

static bool has_word_that_begins(const char *comment, const char *beginning)
{
	size_t length = strlen(beginning);

	while (*(comment += strspn(comment, BETWEEN_WORDS))) {
		if (strncmp(comment, beginning, length) == 0)
			return true;
		comment += strcspn(comment, BETWEEN_WORDS);
	}
	return false;
}

static bool has_word(const char *comment, const char *word)
{
	size_t length;

	while (*(comment += strspn(comment, BETWEEN_WORDS))) {
		length = strcspn(comment, BETWEEN_WORDS);
		if (length == strlen(word) && strncmp(comment, word, length) == 0)
			return true;
		comment += length;
	}
	return false;
}

/* after returns what comes after a beginning that a text has, or NULL. */
static const char *after(const char *text, const char *beginning)
{
	size_t length = strlen(beginning);

	return text && strncmp(text, beginning, length) == 0 ? text + length : NULL;
}

/*
 * read_annotation knows an annotation by how the gate and the daemon begin it, byte by byte: bridge/annotation.go promises it. The gate's is of no
 * round. No text in it can have a quotation mark as it is, so what looks like the wish to be measured is that; and what is started for it asks again.
 */
static bool read_annotation(const char *extra, const char *job, struct run *run)
{
	const char *rest;
	size_t digits;

	run->round = NONE;
	run->measure = false;
	if (after(extra, "{\"v\":1,\"lua\":1,"))
		return true;
	if (!(rest = after(extra, "{\"v\":1,\"lua\":0,\"job\":")) || !(rest = after(rest, job)) || !(rest = after(rest, ",\"round\":")))
		return false;
	digits = read_digits(rest, &run->round);
	run->measure = strstr(rest, ",\"measure\":1,") || strstr(rest, ",\"measure\":1}");
	return digits && rest[digits] == ',' && !(rest[0] == '0' && digits > 1);
}

bool read_managed(const char *comment, const char *extra, const char *job, struct run *run)
{
	run->told = comment && has_word(comment, "synergy-env=on");
	return comment && extra && is_job(job) && has_word_that_begins(comment, "synergy-profile=") &&
	       !has_word(comment, "synergy-env=off") && read_annotation(extra, job, run);
}

size_t write_note(const struct run *run, char *text, size_t size)
{
	const char *told = run->told ? "env=1\n" : "", *measure = run->measure ? "measure=1\n" : "";
	int length;

	if (run->round == NONE)
		length = snprintf(text, size, "restarts=%ld\n%s%s", run->restarts, told, measure);
	else
		length = snprintf(text, size, "restarts=%ld\nround=%ld\n%s%s", run->restarts, run->round, told, measure);
	return length > 0 && (size_t)length < size ? (size_t)length : 0;
}

/* read_line takes the number of the line NAME=NUMBER, and returns what comes after the line, or NULL. */
static const char *read_line(const char *text, const char *name, long *number)
{
	char digits[11];
	size_t length;

	if (!(text = after(text, name)))
		return NULL;
	length = strcspn(text, "\n");
	if (text[length] != '\n' || length >= sizeof(digits))
		return NULL;
	memcpy(digits, text, length);
	digits[length] = '\0';
	return read_number(digits, number) ? text + length + 1 : NULL;
}

bool read_note(const char *text, struct run *run)
{
	const char *rest;

	run->round = NONE;
	if (!(text = read_line(text, "restarts=", &run->restarts)))
		return false;
	if ((rest = read_line(text, "round=", &run->round)))
		text = rest;
	if ((rest = after(text, "env=1\n")))
		text = rest;
	run->told = rest != NULL;
	run->measure = strcmp(text, "measure=1\n") == 0;
	return !*text || run->measure;
}

bool in_list(const char *list, const char *name, const char *value)
{
	size_t length = strlen(name);

	while (*(list += strspn(list, " "))) {
		size_t entry = strcspn(list, " ");

		if (entry == length + 1 + strlen(value) && strncmp(list, name, length) == 0 && list[length] == '=' &&
		    strncmp(list + length + 1, value, strlen(value)) == 0)
			return true;
		list += entry;
	}
	return false;
}
