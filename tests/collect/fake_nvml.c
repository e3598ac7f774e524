/* A driver library that says what a test wants it to say: the part of NVML's interface that is collected through.
 *
 * Beside the library lies a file `behaviour` of lines `name=value`. `<function>=N` makes a function return N,
 * `<function>=hang` makes it never return, `<function>=crash` makes it crash. Everything else is read with a default;
 * reports and chains come from the files `report-<index>` and `chain-<index>` there. Structures as in NVML's header. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned environment, feature, tools; } state_t;
typedef struct { unsigned version, environment, feature, tools, multi; } settings_t;
typedef struct { unsigned size, attestation_size; unsigned char chain[0x1000], attestation[0x1400]; } certificate_t;
typedef struct {
    unsigned has_cec, size, cec_size;
    unsigned char nonce[32], report[0x2000], cec[0x1000];
} report_t;

static char answer[256];
static int handles[64];

static FILE *beside(const char *name, const char *mode) {
    char path[4096];
    Dl_info here;
    dladdr((void *)beside, &here);
    snprintf(path, sizeof path, "%s", here.dli_fname);
    snprintf(strrchr(path, '/') + 1, 256, "%s", name);
    return fopen(path, mode);
}

static const char *text(const char *name, const char *otherwise) {
    char line[512];
    FILE *file = beside("behaviour", "r");
    size_t length = strlen(name);
    snprintf(answer, sizeof answer, "%s", otherwise);
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, name, length) && line[length] == '=') {
            line[strcspn(line, "\n")] = 0;
            snprintf(answer, sizeof answer, "%s", line + length + 1);
        }
    if (file) fclose(file);
    return answer;
}

static unsigned number(const char *name, unsigned otherwise) {
    const char *found = text(name, "");
    return *found ? (unsigned)strtoul(found, NULL, 0) : otherwise;
}

static int behave(const char *name) {
    const char *how = text(name, "0");
    if (!strcmp(how, "hang")) for (;;) pause();
    if (!strcmp(how, "crash")) { signal(SIGSEGV, SIG_DFL); raise(SIGSEGV); }
    return atoi(how);
}
#define BEHAVE do { int code = behave(__func__); if (code) return code; } while (0)

static unsigned take(const char *kind, int index, unsigned char *into, unsigned room) {
    char name[64];
    snprintf(name, sizeof name, "%s-%d", kind, index);
    FILE *file = beside(name, "rb");
    unsigned size = file ? (unsigned)fread(into, 1, room, file) : 0;
    if (file) fclose(file);
    snprintf(name, sizeof name, "%s_size", kind);
    return number(name, size);
}

const char *nvmlErrorString(int code) {
    static char said[64];
    snprintf(said, sizeof said, "code %d of the fake", code);
    return said;
}
int nvmlInitWithFlags(unsigned flags) {
    printf("the library talks on standard output\n");
    fflush(stdout);
    BEHAVE;
    return 0;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { BEHAVE; return 0; }
int nvmlSystemGetDriverVersion(char *into, unsigned size) {
    BEHAVE;
    snprintf(into, size, "%s", text("driver", "575.57.08"));
    if (number("driver_is_latin1", 0)) strcpy(into, "\xe9");
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *count) { BEHAVE; *count = number("count", 1); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    BEHAVE;
    handles[index] = (int)index;
    *handle = &handles[index];
    return 0;
}
int nvmlDeviceGetUUID(void *handle, char *into, unsigned size) {
    BEHAVE;
    snprintf(into, size, "GPU-%08d", *(int *)handle);
    if (number("new_uuid_each_time", 0)) snprintf(into, size, "GPU-%d", (int)getpid());
    return 0;
}
int nvmlDeviceGetArchitecture(void *handle, unsigned *into) { BEHAVE; *into = number("architecture", 9); return 0; }
int nvmlDeviceGetBoardId(void *handle, unsigned *into) { BEHAVE; *into = 256 + *(int *)handle; return 0; }
int nvmlDeviceGetVbiosVersion(void *handle, char *into, unsigned size) {
    BEHAVE;
    snprintf(into, size, "%s", text("vbios", "96.00.5E.00.01"));
    return 0;
}
int nvmlSystemGetConfComputeState(state_t *into) {
    BEHAVE;
    into->environment = number("environment", 2);
    into->feature = number("feature", 1);
    into->tools = number("tools", 0);
    return 0;
}
int nvmlSystemGetConfComputeSettings(settings_t *into) {
    BEHAVE;
    if (into->version != 0x1000014) return 25;
    into->environment = number("environment", 2);
    into->feature = number("feature", 1);
    into->tools = number("tools", 0);
    into->multi = number("multi", 0);
    return 0;
}
int nvmlSystemGetConfComputeGpusReadyState(unsigned *into) {
    BEHAVE;
    FILE *file = beside("ready", "r");
    *into = file != NULL;
    if (file) fclose(file);
    return 0;
}
int nvmlSystemSetConfComputeGpusReadyState(unsigned state) {
    BEHAVE;
    if (number("ready_is_forgotten", 0)) return 0;
    FILE *file = state == 1 ? beside("ready", "w") : NULL;
    if (file) fclose(file);
    return 0;
}
int nvmlDeviceGetConfComputeGpuCertificate(void *handle, certificate_t *into) {
    BEHAVE;
    into->attestation_size = take("chain", *(int *)handle, into->attestation, sizeof into->attestation);
    return 0;
}
int nvmlDeviceGetConfComputeGpuAttestationReport(void *handle, report_t *into) {
    BEHAVE;
    into->size = take("report", *(int *)handle, into->report, sizeof into->report);
    if (!number("nonce_is_ignored", 0)) memcpy(into->report + 4, into->nonce, 32);
    return 0;
}
