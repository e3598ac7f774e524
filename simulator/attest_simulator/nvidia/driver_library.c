/* A driver library of no driver: the part of NVML's interface through which evidence of GPUs is collected.
 *
 * Beside the library lies a file `behaviour` of lines `name=value`, each read with a default: `driver=580.95.05`, and
 * of one GPU `uuid-0=GPU-...`. `<function>=N` makes a function return N, `<function>=hang` makes it never return,
 * `<function>=crash` makes it crash. Chains come from the files `chain-<index>` there. A report comes from the socket
 * `reports`, which takes the index (one byte) and the nonce (32) and answers with the report; without such a socket it
 * is the file `report-<index>`, with the nonce put into it and so without a signature that is right.
 * Structures as in NVML's header. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { INVALID_ARGUMENT = 2, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, VERSION_MISMATCH = 25, UNKNOWN = 999 };
enum { GPUS = 64, NONCE = 32 };
typedef struct { unsigned environment, feature, tools; } state_t;
typedef struct { unsigned cpu, gpus; } capabilities_t;
typedef struct { unsigned version, environment, feature, tools, multi; } settings_t;
typedef struct { unsigned size, attestation_size; unsigned char chain[0x1000], attestation[0x1400]; } certificate_t;
typedef struct {
    unsigned has_cec, size, cec_size;
    unsigned char nonce[NONCE], report[0x2000], cec[0x1000];
} report_t;

static _Thread_local char answer[256];
static int handles[GPUS];

static const char *path_of(const char *name) {
    static _Thread_local char path[4096];
    Dl_info here;
    dladdr((void *)path_of, &here);
    snprintf(path, sizeof path - 256, "%s", here.dli_fname);
    snprintf(strrchr(path, '/') + 1, 256, "%s", name);
    return path;
}

static FILE *beside(const char *name, const char *mode) { return fopen(path_of(name), mode); }

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

static const char *text_of(const char *name, void *handle, const char *otherwise) {
    char indexed[64];
    snprintf(indexed, sizeof indexed, "%s-%d", name, *(int *)handle);
    return text(indexed, otherwise);
}

/* Every buffer of NVML has its length beside it. */
static int say(char *into, unsigned size, const char *said) {
    if (strlen(said) >= size) return INSUFFICIENT_SIZE;
    strcpy(into, said);
    return 0;
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

/* The whole of a buffer that the other end of a socket sends or takes; the number of bytes before its end. */
static size_t moved(int socket, unsigned char *bytes, size_t size, int sends) {
    size_t done = 0;
    while (done < size) {
        ssize_t some = sends ? send(socket, bytes + done, size - done, MSG_NOSIGNAL)
                             : recv(socket, bytes + done, size - done, 0);
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) break;
        done += (size_t)some;
    }
    return done;
}

/* A report under the caller's nonce; its length, 0 if there was no answer. */
static unsigned asked(int index, const unsigned char *nonce, unsigned char *into, unsigned room) {
    unsigned char request[1 + NONCE] = {(unsigned char)index};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    unsigned size = 0;
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (server < 0) return 0;
    memcpy(request + 1, nonce, NONCE);
    /* The path of the folder may be longer than an address has room for. */
    int folder = open(path_of("."), O_PATH | O_DIRECTORY | O_CLOEXEC);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/reports", folder);
    if (!connect(server, (struct sockaddr *)&address, sizeof address)
        && moved(server, request, sizeof request, 1) == sizeof request)
        size = (unsigned)moved(server, into, room, 0);
    close(server);
    if (folder >= 0) close(folder);
    return size;
}

const char *nvmlErrorString(int code) {
    static _Thread_local char said[64];
    if (!code) return "Success";
    snprintf(said, sizeof said, "code %d of a simulated driver", code);
    return said;
}
int nvmlInitWithFlags(unsigned flags) {
    BEHAVE;
    if (!number("quiet", 0)) {
        printf("the library talks on standard output\n");
        fflush(stdout);
    }
    return 0;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { BEHAVE; return 0; }
int nvmlSystemGetDriverVersion(char *into, unsigned size) {
    BEHAVE;
    return say(into, size, number("driver_is_latin1", 0) ? "\xe9" : text("driver", "575.57.08"));
}
int nvmlSystemGetNVMLVersion(char *into, unsigned size) { BEHAVE; return say(into, size, text("nvml", "0.simulated")); }
int nvmlDeviceGetCount_v2(unsigned *count) { BEHAVE; *count = number("count", 1); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    BEHAVE;
    if (index >= number("count", 1) || index >= GPUS) return INVALID_ARGUMENT;
    handles[index] = (int)index;
    *handle = &handles[index];
    return 0;
}
int nvmlDeviceGetUUID(void *handle, char *into, unsigned size) {
    BEHAVE;
    char uuid[96];
    snprintf(uuid, sizeof uuid, "GPU-%08d", *(int *)handle);
    if (number("new_uuid_each_time", 0)) snprintf(uuid, sizeof uuid, "GPU-%d", (int)getpid());
    return say(into, size, text_of("uuid", handle, uuid));
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    BEHAVE;
    char found[96];
    for (unsigned index = 0; !nvmlDeviceGetHandleByIndex_v2(index, handle); index++)
        if (!nvmlDeviceGetUUID(*handle, found, sizeof found) && !strcmp(found, uuid)) return 0;
    return NOT_FOUND;
}
int nvmlDeviceGetIndex(void *handle, unsigned *into) { BEHAVE; *into = (unsigned)*(int *)handle; return 0; }
int nvmlDeviceGetName(void *handle, char *into, unsigned size) {
    BEHAVE;
    return say(into, size, text_of("name", handle, "SIMULATED GPU"));
}
int nvmlDeviceGetArchitecture(void *handle, unsigned *into) { BEHAVE; *into = number("architecture", 9); return 0; }
int nvmlDeviceGetBoardId(void *handle, unsigned *into) { BEHAVE; *into = 256 + *(int *)handle; return 0; }
int nvmlDeviceGetVbiosVersion(void *handle, char *into, unsigned size) {
    BEHAVE;
    char usual[256];
    snprintf(usual, sizeof usual, "%s", text("vbios", "96.00.5E.00.01"));
    return say(into, size, text_of("vbios", handle, usual));
}
int nvmlSystemGetConfComputeCapabilities(capabilities_t *into) {
    BEHAVE;
    into->cpu = number("cpu", 0);
    into->gpus = 1;
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
    if (into->version != 0x1000014) return VERSION_MISMATCH;
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
    if (state != 1) {
        unlink(path_of("ready"));
        return 0;
    }
    FILE *file = beside("ready", "w");
    if (!file) return UNKNOWN;
    fclose(file);
    return 0;
}
int nvmlDeviceGetConfComputeGpuCertificate(void *handle, certificate_t *into) {
    BEHAVE;
    into->attestation_size = take("chain", *(int *)handle, into->attestation, sizeof into->attestation);
    return 0;
}
int nvmlDeviceGetConfComputeGpuAttestationReport(void *handle, report_t *into) {
    BEHAVE;
    int index = *(int *)handle;
    into->has_cec = into->cec_size = 0;
    if (!access(path_of("reports"), F_OK)) {
        into->size = asked(index, into->nonce, into->report, sizeof into->report);
        return into->size ? 0 : UNKNOWN;
    }
    into->size = take("report", index, into->report, sizeof into->report);
    if (!number("nonce_is_ignored", 0)) memcpy(into->report + 4, into->nonce, NONCE);
    return 0;
}
