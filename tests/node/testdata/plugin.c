/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * plugin prolog | epilog | task JOB [ARGUMENT…] | step-option NAME VALUE | words: calls the plugin as Slurm does, with this process's environment for that of the
 * prolog or of the task. task prints the environment that the task would have, each variable ended by a zero byte. words answers questions, NAME and
 * VALUE, each ended by a zero byte, with one line: "right", or what would be right.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/spank.h>

extern char **environ;

static uint32_t job;
static spank_context_t context = S_CTX_REMOTE;

spank_context_t spank_context(void)
{
	return context;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...)
{
	va_list arguments;

	(void)spank;
	va_start(arguments, item);
	if (item == S_JOB_ID)
		*va_arg(arguments, uint32_t *) = job;
	else
		*va_arg(arguments, char ***) = environ;
	va_end(arguments);
	return ESPANK_SUCCESS;
}

spank_err_t spank_getenv(spank_t spank, const char *name, char *value, int size)
{
	const char *is = getenv(name);

	(void)spank;
	if (!is)
		return ESPANK_ENV_NOEXIST;
	if (strlen(is) >= (size_t)size) {
		memcpy(value, is, (size_t)size); /* as Slurm does: cut, and not ended */
		return ESPANK_NOSPACE;
	}
	strcpy(value, is);
	return ESPANK_SUCCESS;
}

spank_err_t spank_setenv(spank_t spank, const char *name, const char *value, int overwrite)
{
	(void)spank;
	return setenv(name, value, overwrite) ? ESPANK_ERROR : ESPANK_SUCCESS;
}

spank_err_t spank_unsetenv(spank_t spank, const char *name)
{
	(void)spank;
	return unsetenv(name) ? ESPANK_ERROR : ESPANK_SUCCESS;
}

void slurm_error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
}

static int task(const char *id, int argc, char **argv)
{
	char **variable;
	int status;

	job = (uint32_t)strtoul(id, NULL, 10);
	status = slurm_spank_task_init(NULL, argc, argv);
	for (variable = environ; *variable; variable++)
		fwrite(*variable, 1, strlen(*variable) + 1, stdout);
	return status;
}

static struct spank_option *registered[9];

spank_err_t spank_option_register(spank_t spank, struct spank_option *option)
{
	size_t k = 0;

	(void)spank;
	while (registered[k])
		k++;
	registered[k] = option;
	return ESPANK_SUCCESS;
}

static int option(const char *name, const char *value)
{
	size_t k;

	for (k = 0; registered[k]; k++)
		if (strcmp(registered[k]->name, name) == 0)
			return registered[k]->cb(registered[k]->val, value, 0);
	return 2;
}

static int words(void)
{
	char *name = NULL, *value = NULL;
	size_t name_size = 0, value_size = 0;

	context = S_CTX_ALLOCATOR;
	while (getdelim(&name, &name_size, 0, stdin) > 0 && getdelim(&value, &value_size, 0, stdin) > 0) {
		if (option(name, value) == ESPANK_SUCCESS)
			puts("right");
		fflush(stdout);
	}
	free(name);
	free(value);
	return 0;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	if (slurm_spank_init(NULL, 0, NULL))
		return 1;
	if (strcmp(verb, "prolog") == 0)
		return slurm_spank_job_prolog(NULL, 0, NULL);
	if (strcmp(verb, "epilog") == 0)
		return slurm_spank_job_epilog(NULL, 0, NULL);
	if (strcmp(verb, "task") == 0 && argc >= 3)
		return task(argv[2], argc - 3, argv + 3);
	if (strcmp(verb, "step-option") == 0 && argc == 4) {
		context = S_CTX_LOCAL;
		return option(argv[2], argv[3]);
	}
	if (strcmp(verb, "words") == 0)
		return words();
	fprintf(stderr, "usage: plugin prolog | epilog | task JOB [ARGUMENT…] | step-option NAME VALUE | words\n");
	return 2;
}
