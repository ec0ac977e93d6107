/* SPDX-License-Identifier: MIT
 * The models on this machine, from their headers: one row a model, read again when its files change, gone when they
 * are (docs/models.md). */
#ifndef APP_STORE_MODELS_H
#define APP_STORE_MODELS_H

#include "berth.h"
#include "common/host_files.h"
#include "store/store.h"

struct model_row {
    char path[HOST_PATH_MAX]; /* GGUF file (first part), or directory */
    int64_t bytes, mtime_ns;  /* of all its files */
    int64_t seen;             /* the scan that last found it */
    char origin[16];          /* "huggingface", "lmstudio", "llama.cpp", "ollama", "folder" */
    char alias[192];          /* what it is called there: "ORG/NAME", "name:tag" */
    char name[128];
    char family[32]; /* "": this version cannot run it; problem says why */
    char problem[256];
    char format[32], quant[16], fingerprint[20];
    int64_t parameters, tensor_bytes;
    /* For 4,096 tokens of context, or the model's own maximum; 0 unless the family is known. */
    int64_t hard_floor, floor, full, fixed_bytes; /* fixed: everything but the expert cache */
    double trunk_bytes, expert_bytes, experts_bytes, kv_token_bytes, macs, kv_token_macs;
    int64_t layers, moe_layers, experts, top_k, ctx_max;
};
extern const struct store_table model_table;

/* Reads the headers of one model into a row; false: not a checkpoint at all. */
bool models_read(const char *path, struct model_row *out);

struct models_scan {
    uint32_t found, read, gone; /* models met, headers read anew, rows removed */
};
/* Looks through the known stores and the user's folders. `again`: headers of unchanged files too. */
bool models_scan(struct store *store, bool again, struct models_scan *out);

/* A folder of the user's, for this and later scans. */
bool models_add_folder(struct store *store, const char *path);
bool models_remove_folder(struct store *store, const char *path, bool *known); /* it was one of them */

/* Path of the model at place `at`, largest first; false: there are fewer. */
bool models_path_by_size(struct store *store, int64_t at, char *path, size_t cap);

/* What a token of this model takes. */
void models_work(const struct model_row *row, berth_speed_work *work);

#endif
