/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * As much of Slurm's plugin interface as the plugin uses, for a test without Slurm. The plugin for a cluster is built against the cluster's own
 * header; what the live suite loads is that.
 */
#ifndef FAKE_SPANK_H
#define FAKE_SPANK_H

#include <stddef.h>

typedef struct spank_handle *spank_t;
typedef enum { ESPANK_SUCCESS = 0, ESPANK_ERROR = 1, ESPANK_BAD_ARG = 2, ESPANK_NOSPACE = 6, ESPANK_ENV_NOEXIST = 9 } spank_err_t;
typedef enum { S_CTX_ERROR, S_CTX_LOCAL, S_CTX_REMOTE, S_CTX_ALLOCATOR, S_CTX_SLURMD, S_CTX_JOB_SCRIPT } spank_context_t;
typedef enum { S_JOB_ID, S_JOB_ENV } spank_item_t;
typedef int (*spank_opt_cb_f)(int val, const char *optarg, int remote);
typedef int(spank_f)(spank_t spank, int argc, char **argv);

struct spank_option {
	char *name, *arginfo, *usage;
	int has_arg, val;
	spank_opt_cb_f cb;
};

#define SPANK_OPTIONS_TABLE_END { NULL, NULL, NULL, 0, 0, NULL }
#define SPANK_PLUGIN(name, version) const char plugin_name[] = #name;

extern spank_f slurm_spank_init, slurm_spank_job_prolog, slurm_spank_job_epilog, slurm_spank_task_init;

spank_context_t spank_context(void);
spank_err_t spank_option_register(spank_t spank, struct spank_option *option);
spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...);
spank_err_t spank_getenv(spank_t spank, const char *name, char *value, int size);
spank_err_t spank_setenv(spank_t spank, const char *name, const char *value, int overwrite);
spank_err_t spank_unsetenv(spank_t spank, const char *name);
void slurm_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
