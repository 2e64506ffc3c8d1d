/* As much of the library of a driver from before MIG as is asked of it: two GPUs that answer, and one that is lost. */
#include <stdio.h>
#include <string.h>

typedef struct { long *handle; } device;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; } pci;

static long gpus[] = {1, 0}; /* minor numbers, in the order of addresses */

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "unknown"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { return snprintf(text, size, "418.226.00") < 0; }
int nvmlSystemGetNVMLVersion(char *text, unsigned size) { return snprintf(text, size, "10.418.226.00") < 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *d) {
	if (index == 2)
		return 15;
	d->handle = &gpus[index];
	return 0;
}

int nvmlDeviceGetMinorNumber(device d, unsigned *minor) { *minor = *d.handle; return 0; }
int nvmlDeviceGetName(device d, char *text, unsigned size) { return snprintf(text, size, "Tesla V100-SXM2-32GB") < 0; }
int nvmlDeviceGetUUID(device d, char *text, unsigned size) { return snprintf(text, size, "GPU-%ld", *d.handle) < 0; }
int nvmlDeviceGetComputeMode(device d, unsigned *mode) { *mode = 3; return 0; }

int nvmlDeviceGetMemoryInfo(device d, unsigned long long *total_free_used) {
	total_free_used[0] = 32768ULL << 20;
	total_free_used[2] = 5ULL << 20;
	return 0;
}

int nvmlDeviceGetPciInfo_v3(device d, pci *p) {
	memset(p, 0, sizeof *p);
	p->bus = 0x1a + (d.handle - gpus);
	return 0;
}

int nvmlDeviceGetUtilizationRates(device d, unsigned *gpu_memory) { gpu_memory[0] = 42; return 0; }
