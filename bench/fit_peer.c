/* SPDX-License-Identifier: MIT
 * What llama.cpp itself takes for a model, from its own log: for bench/fit_peer.py, which builds this program against
 * the llama.h and the libraries that it is given. Weights are neither read nor allocated.
 *
 *   fit_peer LIBDIR make META.gguf OUT.gguf [TENSOR...]
 *     metadata to a file that llama.cpp loads: it is asked again and again which tensor it misses, and of which shape.
 *     Their data is a hole. TENSOR: one that it would do without; blk.*.NAME: in every layer that takes it.
 *   fit_peer LIBDIR measure FILE.gguf GPU_LAYERS
 *     settings a line on standard input:
 *       ctx micro-batch slots is_unified flash_attention is_swa_full outputs
 *     and for each a line of "WHAT WHERE MIB" triples; what: compute, cache, state, output. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "ggml-backend.h"
#include "gguf.h"
#include "llama.h"

static bool is_watching;
static bool is_verbose;
static bool is_making;
static char complaint[1024];

static void watch(enum ggml_log_level level, const char *text, void *user)
{
    static const struct {
        const char *what, *format;
    } lines[] = {
        {"compute", " %63s compute buffer size = %lf MiB"},
        {"cache", " %63s KV buffer size = %lf MiB"},
        {"state", " %63s RS buffer size = %lf MiB"},
        {"output", " %63s output buffer size = %lf MiB"},
    };
    char where[64];
    double mib;
    const char *after = strchr(text, ':');
    (void)user;
    if (is_verbose || (level == GGML_LOG_LEVEL_ERROR && !is_making)) {
        fputs(text, stderr);
    }
    if (is_making && level == GGML_LOG_LEVEL_ERROR && complaint[0] == '\0') {
        snprintf(complaint, sizeof complaint, "%s", text);
    }
    if (!is_watching || after == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (sscanf(after + 1, lines[i].format, where, &mib) == 2) {
            printf("%s %s %.2f ", lines[i].what, where, mib);
        }
    }
    /* The caches' own lines, since nothing of theirs is allocated. */
    if (sscanf(after + 1, " size = %lf MiB", &mib) == 1) {
        printf("%s all %.2f ", strstr(text, "recurrent") != NULL ? "state" : "cache", mib);
    }
}

/* ---- make ------------------------------------------------------------------------------------------- */

enum { TENSORS_MAX = 8192 };
static struct known {
    char name[GGML_MAX_NAME];
    int64_t ne[4];
} known[TENSORS_MAX];
static int known_count;

static struct known *find(const char *name)
{
    for (int i = 0; i < known_count; i++) {
        if (strcmp(known[i].name, name) == 0) {
            return &known[i];
        }
    }
    return NULL;
}

/* A tensor not known yet has the shape of an earlier layer's tensor of that name, or one that is wrong for certain. */
static bool add(const char *name)
{
    if (known_count == TENSORS_MAX || find(name) != NULL) {
        return false;
    }
    struct known *new = &known[known_count];
    const char *suffix = strncmp(name, "blk.", 4) == 0 ? strchr(name + 4, '.') : NULL;
    *new = (struct known){.ne = {1, 1, 1, 7}};
    snprintf(new->name, sizeof new->name, "%s", name);
    for (int i = known_count - 1; suffix != NULL && i >= 0; i--) {
        const char *other = strncmp(known[i].name, "blk.", 4) == 0 ? strchr(known[i].name + 4, '.') : NULL;
        if (other != NULL && strcmp(other, suffix) == 0) {
            memcpy(new->ne, known[i].ne, sizeof new->ne);
            break;
        }
    }
    known_count++;
    return true;
}

/* One that is not needed gets a wrong shape, so that the program says whether it knows it. */
static void add_optional(const char *pattern)
{
    enum { LAYERS_MAX = 128 };
    char name[GGML_MAX_NAME];
    const char *star = strchr(pattern, '*');
    for (int i = 0; i < (star != NULL ? LAYERS_MAX : 1); i++) {
        if (star != NULL) {
            snprintf(name, sizeof name, "%.*s%d%s", (int)(star - pattern), pattern, i, star + 1);
        } else {
            snprintf(name, sizeof name, "%s", pattern);
        }
        if (add(name)) {
            memcpy(known[known_count - 1].ne, (int64_t[]){1, 1, 1, 7}, sizeof known[0].ne);
        }
    }
}

/* Takes out what nobody asked for. */
static bool drop_unknown(void)
{
    int kept = 0;
    for (int i = 0; i < known_count; i++) {
        if (known[i].ne[3] != 7) {
            known[kept++] = known[i];
        }
    }
    bool dropped = kept < known_count;
    known_count = kept;
    return dropped;
}

/* False: the complaint is about something else. */
static bool learn(const char *complaint)
{
    char name[GGML_MAX_NAME];
    const char *at = strstr(complaint, "missing tensor '");
    const char *wrong = strstr(complaint, "has wrong shape; expected ");
    const char *tensor = strstr(complaint, "tensor '");
    if (strstr(complaint, "wrong number of tensors") != NULL) {
        return drop_unknown();
    }
    if (at != NULL && sscanf(at, "missing tensor '%63[^']", name) == 1) {
        return add(name);
    }
    if (tensor == NULL || sscanf(tensor, "tensor '%63[^']", name) != 1) {
        return false;
    }
    if (strstr(complaint, "not found") != NULL) {
        return add(name);
    }
    struct known *old = find(name);
    if (wrong == NULL || old == NULL) {
        return false;
    }
    long long ne[4] = {1, 1, 1, 1};
    sscanf(wrong, "has wrong shape; expected %lld, %lld, %lld, %lld", &ne[0], &ne[1], &ne[2], &ne[3]);
    for (int i = 0; i < 4; i++) {
        old->ne[i] = ne[i];
    }
    return true;
}

static bool write_holes(const struct gguf_context *meta, const char *path)
{
    struct ggml_init_params params = {.mem_size = ggml_tensor_overhead() * (size_t)(known_count + 1), .no_alloc = true};
    struct ggml_context *context = ggml_init(params);
    struct gguf_context *file = gguf_init_empty();
    uint64_t bytes = 0;
    gguf_set_kv(file, meta);
    for (int i = 0; i < known_count; i++) {
        bool matrix = known[i].ne[1] > 1 && strstr(known[i].name, "norm") == NULL;
        enum ggml_type type = matrix && known[i].ne[0] % 32 == 0 ? GGML_TYPE_F16 : GGML_TYPE_F32;
        struct ggml_tensor *tensor =
            ggml_new_tensor_4d(context, type, known[i].ne[0], known[i].ne[1], known[i].ne[2], known[i].ne[3]);
        ggml_set_name(tensor, known[i].name);
        gguf_add_tensor(file, tensor);
        bytes += GGML_PAD(ggml_nbytes(tensor), 32);
    }
    bool written = gguf_write_to_file(file, path, true);
    FILE *out = written ? fopen(path, "r+b") : NULL;
    if (out != NULL) {
        /* The last byte makes the hole before it. */
        written = fseeko(out, (off_t)(gguf_get_meta_size(file) + bytes - 1), SEEK_SET) == 0 && fputc(0, out) == 0;
        written = fclose(out) == 0 && written;
    }
    gguf_free(file);
    ggml_free(context);
    return written;
}

static struct llama_model *load(const char *path, int gpu_layers)
{
    struct llama_model_params params = llama_model_default_params();
    params.no_alloc = true;
    params.load_mode = LLAMA_LOAD_MODE_NONE;
    params.n_gpu_layers = gpu_layers;
    return llama_model_load_from_file(path, params);
}

static int make(const char *from, const char *path, char **optional, int optional_count)
{
    struct gguf_init_params how = {.no_alloc = true};
    struct gguf_context *meta = gguf_init_from_file(from, how);
    struct llama_model *model = NULL;
    if (meta == NULL || !add("token_embd.weight")) {
        return 1;
    }
    for (int i = 0; i < optional_count; i++) {
        add_optional(optional[i]);
    }
    is_making = true;
    while (model == NULL) {
        complaint[0] = '\0';
        if (!write_holes(meta, path)) {
            fprintf(stderr, "fit_peer: cannot write %s\n", path);
            return 1;
        }
        model = load(path, 0);
        if (model == NULL && !learn(complaint)) {
            fprintf(stderr, "fit_peer: %s: %s", from, complaint);
            return 1;
        }
    }
    llama_model_free(model);
    gguf_free(meta);
    return 0;
}

/* ---- measure ---------------------------------------------------------------------------------------- */

static bool run_line(struct llama_model *model, const char *line)
{
    struct llama_context_params params = llama_context_default_params();
    unsigned ctx, ubatch, slots, unified, flash, full, outputs;
    if (sscanf(line, "%u %u %u %u %u %u %u", &ctx, &ubatch, &slots, &unified, &flash, &full, &outputs) != 7) {
        return false;
    }
    params.n_ctx = ctx;
    params.n_batch = params.n_ubatch = ubatch;
    params.n_seq_max = slots;
    params.kv_unified = unified != 0;
    params.flash_attn_type = flash != 0 ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.swa_full = full != 0;
    params.n_outputs_max = outputs;
    is_watching = true;
    struct llama_context *context = llama_init_from_model(model, params);
    is_watching = false;
    printf("%s\n", context != NULL ? "" : "failed");
    fflush(stdout);
    llama_free(context);
    return true;
}

static int measure(const char *path, int gpu_layers)
{
    char line[256];
    struct llama_model *model = load(path, gpu_layers);
    if (model == NULL) {
        fprintf(stderr, "fit_peer: llama.cpp does not take %s\n", path);
        return 1;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (!run_line(model, line)) {
            fprintf(stderr, "fit_peer: not a setting: %s", line);
            return 2;
        }
    }
    llama_model_free(model);
    return 0;
}

int main(int argc, char **argv)
{
    bool makes = argc >= 5 && strcmp(argv[2], "make") == 0;
    if (!makes && (argc != 5 || strcmp(argv[2], "measure") != 0)) {
        fprintf(stderr, "usage: fit_peer LIBDIR make META.gguf OUT.gguf [TENSOR...]\n"
                        "       fit_peer LIBDIR measure FILE.gguf GPU_LAYERS < settings\n");
        return 2;
    }
    is_verbose = getenv("GGML_SCHED_DEBUG") != NULL || getenv("FIT_PEER_VERBOSE") != NULL;
    llama_log_set(watch, NULL);
    ggml_backend_load_all_from_path(argv[1]);
    llama_backend_init();
    return makes ? make(argv[3], argv[4], argv + 5, argc - 5) : measure(argv[3], atoi(argv[4]));
}
