/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The SPANK plugin of synergy-slurmd: the words of the contract as options of sbatch, and the environment that a task of a managed job needs.
 * It decides nothing, asks nobody, and whatever goes wrong in it, the job runs as if it were not there.
 *
 * Where a job is submitted, an option is checked; cli_filter.lua puts it into the comment, where gate and daemon look for it. Before the first
 * task of a run on a node, slurmd hands us, as root, the job's comment and annotation; what tasks need of them is kept as numbers in a file that
 * only root writes. Each task reads that file, and the rest from what Slurm itself tells it.
 *
 * Where the site has named a program that measures, and the daemon wants the run measured, that program is started beside its tasks.
 *
 * Jobs that share a GPU it leaves to the scripts in etc/node, which may run beside it: who may share what is JSON that a user can have written,
 * and its reader is a program of its own (synergy-broker); a plugin lives in Slurm's own process, which is no place for either.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What Slurm looks for in the plugin is seen from outside, and nothing else: words.c has no business in Slurm's own name space. */
#pragma GCC visibility push(default)
#include <slurm/spank.h>
SPANK_PLUGIN(synergy, 1);
#pragma GCC visibility pop

#include "words.h"

/* Where the notes of runs are, and whose they have to be. Tests have their own. */
#ifndef NOTES
#define NOTES "/run/synergy-jobs"
#define NOTES_OWNER 0
#endif

/* --- where a job is submitted ------------------------------------------------ */

enum { PROFILE, CHECKPOINT, LENGTH, PROGRESS, ENV, CORES, MEMORY, SHARE, WORDS };

static const struct word {
	const char *name; /* after synergy- */
	const char *(*check)(const char *value);
} words[WORDS] = {
	[PROFILE] = { "profile", check_profile },    [CHECKPOINT] = { "checkpoint", check_checkpoint },
	[LENGTH] = { "length", check_length },       [PROGRESS] = { "progress", check_progress },
	[ENV] = { "env", check_env },                [CORES] = { "cores", check_keeping },
	[MEMORY] = { "memory", check_keeping },      [SHARE] = { "share", check_share },
};

static int take(int number, const char *value, int remote)
{
	const struct word *word = &words[number];
	const char *right;

	if (remote) /* it was checked where it was given */
		return ESPANK_SUCCESS;
	if (spank_context() == S_CTX_LOCAL && getenv("SLURM_JOB_ID")) {
		slurm_error("synergy: --synergy-%s belongs to a job and not to a step of it; give it to sbatch.", word->name);
		return ESPANK_BAD_ARG;
	}
	right = word->check(value && *value ? value : NULL);
	if (!right)
		return ESPANK_SUCCESS;
	slurm_error("synergy: --synergy-%s is not right; it should be %s.", word->name, right);
	return ESPANK_BAD_ARG;
}

/* sbatch and salloc do not know a plugin's table of options, spank_options; what is registered, all know. */
static struct spank_option options[] = {
	{ "synergy-profile", "NAME.json|auto", "let synergy-slurmd choose cores and memory by this sensitivity profile", 1, PROFILE, take },
	{ "synergy-checkpoint", "SIGNAL@SECONDS[/steps]", "the job saves on SIGNAL and leaves within SECONDS (USR1@60)", 2, CHECKPOINT, take },
	{ "synergy-length", "2.5h", "expected length at the proportional share, in s, m, h or d", 1, LENGTH, take },
	{ "synergy-progress", NULL, "the job will report how far it has come", 0, PROGRESS, take },
	{ "synergy-cores", "keep|give", "not to run with fewer cores than asked for, or to leave that to the profile", 1, CORES, take },
	{ "synergy-memory", "keep|give", "the same for memory", 1, MEMORY, take },
	{ "synergy-share", "high|low[,mem=GIB][,slo=MS]", "let the job share its GPU with others", 1, SHARE, take },
	{ "synergy-env", "on|off", "tell the job's tasks in variables what they were given, or do not measure them either", 1, ENV, take },
	SPANK_OPTIONS_TABLE_END
};

/*
 * Slurm hands a job's options on to whatever is submitted from inside the job, and so a job that submits others would opt them in. An option is
 * for the job that it was given to.
 */
static void forget_inherited_options(void)
{
	char variable[96];
	size_t k;

	for (k = 0; k < WORDS; k++) {
		snprintf(variable, sizeof(variable), "SLURM_SPANK__SLURM_SPANK_OPTION_synergy_synergy_%s", words[k].name);
		unsetenv(variable);
	}
}

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
	struct spank_option *option;

	(void)argc, (void)argv;
	if (spank_context() == S_CTX_ALLOCATOR || spank_context() == S_CTX_LOCAL)
		forget_inherited_options();
	for (option = options; option->name; option++)
		(void)spank_option_register(spank, option);
	return ESPANK_SUCCESS;
}

/* --- before and after a run, as root ----------------------------------------- */

/* open_notes opens the folder of the notes, or returns -1 where it is not root's alone. */
static int open_notes(void)
{
	struct stat about;
	int folder = open(NOTES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (folder >= 0 && (fstat(folder, &about) || about.st_uid != NOTES_OWNER || (about.st_mode & 022))) {
		close(folder);
		return -1;
	}
	return folder;
}

/* write_file writes a new file and renames it, so that a task reads a whole note or none. */
static void write_file(int folder, const char *name, const char *text, size_t length)
{
	char fresh[32];
	ssize_t written;
	int file;

	snprintf(fresh, sizeof(fresh), ".%s.%ld", name, (long)getpid());
	file = openat(folder, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (file < 0)
		return;
	written = write(file, text, length);
	if (fchmod(file, 0644) || close(file) || written != (ssize_t)length || renameat(folder, fresh, folder, name))
		(void)unlinkat(folder, fresh, 0);
}

static void put_note(const char *job, const struct run *run)
{
	char text[NOTE_SIZE];
	size_t length = write_note(run, text, sizeof(text));
	int folder;

	if (mkdir(NOTES, 0755) == 0)
		(void)chmod(NOTES, 0755); /* slurmd's umask is the site's */
	folder = open_notes();
	if (folder < 0)
		return;
	if (length)
		write_file(folder, job, text, length);
	close(folder);
}

static void drop_note(const char *job)
{
	int folder;

	if (!is_job(job) || (folder = open_notes()) < 0)
		return;
	(void)unlinkat(folder, job, 0);
	close(folder);
}

/* The environment of a prolog is slurmd's own: what users choose of it stands in values, or below names that begin with SPANK_. */
int slurm_spank_job_prolog(spank_t spank, int argc, char **argv)
{
	const char *job = getenv("SLURM_JOB_ID");
	struct run run = { NONE, 0, false, false };

	(void)spank, (void)argc, (void)argv;
	drop_note(job); /* of a run before, whose epilog did not come about */
	if (!read_managed(getenv("SLURM_JOB_COMMENT"), getenv("SLURM_JOB_EXTRA"), job, &run))
		return ESPANK_SUCCESS;
	if (!read_number(getenv("SLURM_JOB_RESTART_COUNT"), &run.restarts))
		run.restarts = 0;
	put_note(job, &run);
	return ESPANK_SUCCESS;
}

int slurm_spank_job_epilog(spank_t spank, int argc, char **argv)
{
	(void)spank, (void)argc, (void)argv;
	drop_note(getenv("SLURM_JOB_ID"));
	return ESPANK_SUCCESS;
}

/* --- before each task, as the user ------------------------------------------- */

/* find_run reads the note of a job; where there is none, the job is not managed. */
static bool find_run(spank_t spank, struct run *run)
{
	char path[sizeof(NOTES) + 16], text[NOTE_SIZE];
	struct stat about;
	uint32_t job;
	ssize_t length = -1;
	int file;

	if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS)
		return false;
	snprintf(path, sizeof(path), NOTES "/%lu", (unsigned long)job);
	file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
		return false;
	if (fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == NOTES_OWNER)
		length = read(file, text, sizeof(text) - 1);
	close(file);
	if (length <= 0)
		return false;
	text[length] = '\0';
	return read_note(text, run);
}

/* number_in reads a number in the task's environment; NONE where there is none. */
static long number_in(spank_t spank, const char *name)
{
	char text[16];
	long number;

	if (spank_getenv(spank, name, text, sizeof(text)) != ESPANK_SUCCESS || !read_number(text, &number))
		return NONE;
	return number;
}

static void say(spank_t spank, const char *name, long number)
{
	char text[24];

	if (number == NONE) {
		(void)spank_unsetenv(spank, name); /* it may be that of a job around this one */
		return;
	}
	snprintf(text, sizeof(text), "%ld", number);
	(void)spank_setenv(spank, name, text, 1);
}

/* tasks_on_node is how many tasks of the step run here: a managed job has as many on each of its nodes. */
static long tasks_on_node(spank_t spank)
{
	char text[64] = "";
	long tasks;

	if (spank_getenv(spank, "SLURM_STEP_TASKS_PER_NODE", text, sizeof(text)) == ESPANK_ENV_NOEXIST)
		(void)spank_getenv(spank, "SLURM_TASKS_PER_NODE", text, sizeof(text));
	text[sizeof(text) - 1] = '\0'; /* the list of a large job is cut; its first number is what we want */
	text[strcspn(text, "(,")] = '\0';
	return read_number(text, &tasks) && tasks > 0 ? tasks : 1;
}

/* cores_of_task is what each task may use: what the step says, and never more than it has here. */
static long cores_of_task(spank_t spank, long cores)
{
	long said = number_in(spank, "SLURM_CPUS_PER_TASK"), part = cores / tasks_on_node(spank);

	if (said > 0 && said <= cores)
		return said;
	return part > 0 ? part : 1;
}

static long memory_on_node(spank_t spank, long cores)
{
	long node = number_in(spank, "SLURM_MEM_PER_NODE"), core = number_in(spank, "SLURM_MEM_PER_CPU");

	if (node > 0)
		return node;
	return core > 0 && core <= MAX_NUMBER / cores ? core * cores : NONE;
}

/* gpus_on_node counts a GPU that the job shares as one: to Slurm a part of one is none. */
static long gpus_on_node(spank_t spank)
{
	long gpus = number_in(spank, "SLURM_GPUS_ON_NODE");

	if (gpus != NONE)
		return gpus;
	return number_in(spank, "SLURM_SHARDS_ON_NODE") > 0 ? 1 : 0;
}

/*
 * say_threads sets how many threads a task should start, unless the user has said. What we set for a batch script reaches its steps as if the
 * user had; so we keep a list of what is ours, SYNERGY_SET, and a step with another number of cores gets another number of threads.
 */
static const char *const threads[] = { "OMP_NUM_THREADS", "MKL_NUM_THREADS", "SRUN_CPUS_PER_TASK" };

static void say_threads(spank_t spank, long cores)
{
	char ours[128] = "", now_ours[128] = "", value[32];
	size_t k, length = 0;
	spank_err_t found;
	long number;

	if (spank_getenv(spank, "SYNERGY_SET", ours, sizeof(ours)) != ESPANK_SUCCESS)
		ours[0] = '\0';
	for (k = 0; k < sizeof(threads) / sizeof(threads[0]); k++) {
		found = spank_getenv(spank, threads[k], value, sizeof(value));
		if (found != ESPANK_ENV_NOEXIST && !(found == ESPANK_SUCCESS && read_number(value, &number) && in_list(ours, threads[k], value)))
			continue;
		say(spank, threads[k], cores);
		length += (size_t)snprintf(now_ours + length, sizeof(now_ours) - length, "%s%s=%ld", length ? " " : "", threads[k], cores);
	}
	if (length)
		(void)spank_setenv(spank, "SYNERGY_SET", now_ours, 1);
	else
		(void)spank_unsetenv(spank, "SYNERGY_SET");
}

static void tell(spank_t spank, const struct run *run, long cores)
{
	say_threads(spank, cores_of_task(spank, cores));
	say(spank, "SYNERGY_CPUS", cores);
	say(spank, "SYNERGY_MEMORY_MB", memory_on_node(spank, cores));
	say(spank, "SYNERGY_GPUS", gpus_on_node(spank));
	say(spank, "SYNERGY_ROUND", run->round);
	say(spank, "SYNERGY_RESTARTS", run->restarts);
}

/*
 * forget_ours takes away what a job inherits that does not want to be told, from one that was: whoever submits a job from inside of another hands
 * on all that was set for that one.
 */
static void forget_ours(spank_t spank)
{
	static const char *const set[] = { "SYNERGY_CPUS", "SYNERGY_MEMORY_MB", "SYNERGY_GPUS", "SYNERGY_ROUND", "SYNERGY_RESTARTS", "SYNERGY_SET" };
	char ours[128], value[32];
	long number;
	size_t k;

	if (spank_getenv(spank, "SYNERGY_SET", ours, sizeof(ours)) != ESPANK_SUCCESS)
		return;
	for (k = 0; k < sizeof(threads) / sizeof(threads[0]); k++)
		if (spank_getenv(spank, threads[k], value, sizeof(value)) == ESPANK_SUCCESS && read_number(value, &number) && in_list(ours, threads[k], value))
			(void)spank_unsetenv(spank, threads[k]);
	for (k = 0; k < sizeof(set) / sizeof(set[0]); k++)
		(void)spank_unsetenv(spank, set[k]);
}

/*
 * measure_in is what a process of its own does that measures a task: it holds nothing of the task's open, is no child that the task might wait
 * for, and ends with the task by itself.
 */
static void measure_in(const char *program, char *const argv[], char *const env[])
{
	int null = open("/dev/null", O_RDWR), file;
	sigset_t none;

	(void)setsid();
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	for (file = 0; file < 3; file++)
		(void)dup2(null, file);
	for (; file < 1024; file++)
		(void)close(file);
	(void)execve(program, argv, env);
	_exit(127);
}

/* measure starts a program that measures the task which this process is about to become. Where it cannot be started the task begins all the same. */
static void measure(spank_t spank, const char *program)
{
	char pid[24], *argv[] = { "synergy", "measure", "--pid", pid, NULL }, **env = NULL;
	pid_t child;

	if (spank_get_item(spank, S_JOB_ENV, &env) != ESPANK_SUCCESS || !env)
		return;
	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	child = fork();
	if (child == 0) {
		if (fork() == 0)
			measure_in(program, argv, env);
		_exit(0);
	}
	if (child > 0)
		(void)waitpid(child, NULL, 0);
}

/* measurer is the program that the site names for it in plugstack.conf, as measure=/usr/bin/synergy, or NULL. */
static const char *measurer(int argc, char **argv)
{
	static const char name[] = "measure=";
	int k;

	for (k = 0; k < argc; k++)
		if (strncmp(argv[k], name, strlen(name)) == 0 && argv[k][strlen(name)] == '/')
			return argv[k] + strlen(name);
	return NULL;
}

int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
	struct run run;
	long cores;
	const char *program = measurer(argc, argv);

	if (!find_run(spank, &run))
		run = (struct run){ NONE, 0, false, false };
	cores = number_in(spank, "SLURM_CPUS_ON_NODE");
	if (!run.told)
		forget_ours(spank);
	else if (cores > 0)
		tell(spank, &run, cores);
	if (program && run.measure && number_in(spank, "SLURM_STEP_NUM_TASKS") <= 1) /* of several tasks each would be a part */
		measure(spank, program);
	return ESPANK_SUCCESS;
}
