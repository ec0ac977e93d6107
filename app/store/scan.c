/* SPDX-License-Identifier: MIT
 * Where other programs keep models: the layouts of the Hugging Face cache, LM Studio, llama.cpp and Ollama. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "store/models.h"

enum { DEPTH_MAX = 6, MANIFEST_MAX = 64 * 1024 };

struct scan {
    struct store *store;
    bool again, failed;
    int64_t now;
    const char *origin;
    char root[HOST_PATH_MAX];
    struct models_scan counts;
    struct model_row row; /* 2 KiB: not for the stack of a walk */
    struct model_row known;
};

static bool ends_with(const char *text, const char *end)
{
    size_t a = strlen(text);
    size_t b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

static bool found_one(void *user, const void *row)
{
    (void)row;
    *(bool *)user = true;
    return false;
}

/* One model; unchanged files keep the row that they have. */
static void note_model(struct scan *scan, const char *path, const char *alias, uint64_t bytes, int64_t mtime_ns)
{
    bool known = false;
    const char *const texts[2] = {path, NULL};
    if (scan->failed) {
        return;
    }
    scan->failed = !store_each(scan->store, &model_table, "WHERE path = ?1", texts, &scan->known, found_one, &known);
    bool same = known && scan->known.bytes == (int64_t)bytes && scan->known.mtime_ns == mtime_ns;
    if (same && scan->known.seen == scan->now) {
        return; /* two roads to one file */
    }
    if (same && !scan->again) {
        scan->row = scan->known;
    } else {
        memset(&scan->row, 0, sizeof scan->row);
        if (!models_read(path, &scan->row)) {
            return;
        }
        scan->counts.read++;
    }
    scan->row.bytes = (int64_t)bytes;
    scan->row.mtime_ns = mtime_ns;
    scan->row.seen = scan->now;
    snprintf(scan->row.origin, sizeof scan->row.origin, "%s", scan->origin);
    snprintf(scan->row.alias, sizeof scan->row.alias, "%.191s", alias);
    scan->failed = scan->failed || !store_put(scan->store, &model_table, &scan->row);
    scan->counts.found++;
}

/* ---- files and directories -------------------------------------------------------------------------- */

struct directory {
    bool has_config, has_weights;
    uint64_t bytes;
    int64_t mtime_ns;
};

static bool look(void *user, const struct host_entry *entry)
{
    struct directory *directory = user;
    bool config = strcmp(entry->name, "config.json") == 0;
    bool weights = ends_with(entry->name, ".safetensors");
    directory->has_config = directory->has_config || config;
    directory->has_weights = directory->has_weights || weights;
    if (config || weights) {
        directory->bytes += entry->bytes;
        directory->mtime_ns = entry->mtime_ns > directory->mtime_ns ? entry->mtime_ns : directory->mtime_ns;
    }
    return false;
}

/* The name people use: what follows the root, or what the layout says. */
static void alias_of(const struct scan *scan, const char *path, char alias[192])
{
    size_t root = strlen(scan->root);
    const char *inside = strncmp(path, scan->root, root) == 0 && path[root] == '/' ? path + root + 1 : path;
    snprintf(alias, 192, "%s", inside);
    if (strcmp(scan->origin, "huggingface") == 0 && strncmp(inside, "models--", 8) == 0) {
        size_t used = 0; /* models--ORG--NAME/snapshots/HASH[/FILE] */
        const char *at = inside + 8;
        for (; *at != '\0' && *at != '/' && used < 180; at++) {
            bool dashes = at[0] == '-' && at[1] == '-';
            alias[used++] = dashes ? '/' : *at;
            at += dashes ? 1 : 0;
        }
        alias[used] = '\0';
        const char *file = strrchr(path, '/');
        if (ends_with(path, ".gguf") && file != NULL) {
            snprintf(alias + used, 192 - used, ":%s", file + 1);
        }
    }
    size_t length = strlen(alias);
    if (ends_with(alias, ".gguf")) {
        alias[length - 5] = '\0';
    }
}

/* A later part of a split file, or a projector: not a model by itself. */
static bool is_part(const char *name)
{
    const char *of = strstr(name, "-of-");
    bool later = of != NULL && of - name >= 6 && strncmp(of - 6, "-00001", 6) != 0 && of[-6] == '-';
    return later || strstr(name, "mmproj") != NULL;
}

/* Sizes and times of all parts of a split file. */
static void add_parts(const char *path, uint64_t *bytes, int64_t *mtime_ns)
{
    enum { PARTS_MAX = 1000 };
    const char *first = strstr(path, "-00001-of-");
    for (uint32_t i = 2; first != NULL && i < PARTS_MAX; i++) {
        char part[HOST_PATH_MAX];
        struct host_entry entry;
        snprintf(part, sizeof part, "%.*s-%05" PRIu32 "%s", (int)(first - path), path, i, first + 6);
        if (!host_entry_of(part, &entry)) {
            return;
        }
        *bytes += entry.bytes;
        *mtime_ns = entry.mtime_ns > *mtime_ns ? entry.mtime_ns : *mtime_ns;
    }
}

static bool visit(void *user, const struct host_entry *entry)
{
    struct scan *scan = user;
    char alias[192];
    if (entry->is_directory) {
        struct directory directory = {0};
        if (strcmp(entry->name, "blobs") == 0 || strcmp(entry->name, ".no_exist") == 0 ||
            strcmp(entry->name, ".git") == 0) {
            return false;
        }
        host_walk(entry->path, 1, look, &directory);
        if (directory.has_config && directory.has_weights) {
            alias_of(scan, entry->path, alias);
            note_model(scan, entry->path, alias, directory.bytes, directory.mtime_ns);
            return false;
        }
        return true;
    }
    if (ends_with(entry->name, ".gguf") && !is_part(entry->name)) {
        uint64_t bytes = entry->bytes;
        int64_t mtime_ns = entry->mtime_ns;
        add_parts(entry->path, &bytes, &mtime_ns);
        alias_of(scan, entry->path, alias);
        note_model(scan, entry->path, alias, bytes, mtime_ns);
    }
    return true;
}

static void scan_folder(struct scan *scan, const char *folder, const char *origin)
{
    struct host_entry entry;
    if (!host_entry_of(folder, &entry)) {
        return;
    }
    scan->origin = origin;
    snprintf(scan->root, sizeof scan->root, "%s", folder);
    if (!entry.is_directory || visit(scan, &entry)) { /* the folder may be a model itself */
        if (entry.is_directory) {
            host_walk(folder, DEPTH_MAX, visit, scan);
        } else {
            visit(scan, &entry);
        }
    }
}

/* ---- the Hugging Face cache ------------------------------------------------------------------------- */

/* hub/models--ORG--NAME/{refs/main, snapshots/HASH}: the snapshot that main names, else all of them. */
static bool visit_repository(void *user, const struct host_entry *entry)
{
    struct scan *scan = user;
    char path[HOST_PATH_MAX + 160];
    char hash[128];
    if (!entry->is_directory || strncmp(entry->name, "models--", 8) != 0) {
        return false;
    }
    struct host_entry snapshot;
    snprintf(path, sizeof path, "%s/refs/main", entry->path);
    if (host_read_small(path, hash, sizeof hash)) {
        hash[strcspn(hash, " \r\n/")] = '\0';
        snprintf(path, sizeof path, "%s/snapshots/%s", entry->path, hash);
        if (hash[0] != '\0' && hash[0] != '.' && strlen(path) < HOST_PATH_MAX && host_entry_of(path, &snapshot) &&
            snapshot.is_directory) {
            if (visit(scan, &snapshot)) {
                host_walk(path, DEPTH_MAX, visit, scan);
            }
            return false;
        }
    }
    snprintf(path, sizeof path, "%s/snapshots", entry->path);
    host_walk(path, DEPTH_MAX, visit, scan);
    return false;
}

static void scan_hub(struct scan *scan, const char *folder)
{
    scan->origin = "huggingface";
    snprintf(scan->root, sizeof scan->root, "%s", folder);
    host_walk(folder, 1, visit_repository, scan);
}

static void scan_huggingface(struct scan *scan)
{
    char path[HOST_PATH_MAX];
    const char *hub = host_path_variable("HF_HUB_CACHE");
    const char *home = host_path_variable("HF_HOME");
    const char *cache = host_path_variable("XDG_CACHE_HOME");
    if (hub != NULL) {
        scan_hub(scan, hub);
    } else if (home != NULL && snprintf(path, sizeof path, "%s/hub", home) < (int)sizeof path) {
        scan_hub(scan, path);
    } else if (cache != NULL && snprintf(path, sizeof path, "%s/huggingface/hub", cache) < (int)sizeof path) {
        scan_hub(scan, path);
    } else if (host_home_path(".cache/huggingface/hub", path, sizeof path)) {
        scan_hub(scan, path);
    }
}

/* ---- Ollama ----------------------------------------------------------------------------------------- */

/* The blob of a manifest's model layer: layers are flat objects with "mediaType" and "digest". */
static bool model_digest(const char *manifest, char digest[72])
{
    static const char wanted[] = "application/vnd.ollama.image.model\"";
    const char *layer = strstr(manifest, wanted);
    if (layer == NULL) {
        return false;
    }
    const char *begin = layer;
    while (begin > manifest && *begin != '{') {
        begin--;
    }
    const char *end = strchr(layer, '}');
    const char *at = strstr(begin, "\"digest\"");
    const char *value = at != NULL ? strstr(at, "sha256:") : NULL;
    if (value == NULL || end == NULL || value > end || strspn(value + 7, "0123456789abcdef") != 64) {
        return false;
    }
    snprintf(digest, 72, "sha256-%.64s", value + 7);
    return true;
}

/* manifests/HOST/NAMESPACE/MODEL/TAG */
static bool visit_manifest(void *user, const struct host_entry *entry)
{
    struct scan *scan = user;
    static char text[MANIFEST_MAX];
    char digest[72];
    char path[HOST_PATH_MAX];
    char alias[192];
    struct host_entry blob;
    if (entry->is_directory) {
        return true;
    }
    if (!host_read_small(entry->path, text, sizeof text) || !model_digest(text, digest) ||
        snprintf(path, sizeof path, "%s/blobs/%s", scan->root, digest) >= (int)sizeof path ||
        !host_entry_of(path, &blob)) {
        return true;
    }
    const char *inside = entry->path + strlen(scan->root) + strlen("/manifests/");
    const char *name = strchr(inside, '/'); /* without the registry's host */
    name = name != NULL ? name + 1 : inside;
    name += strncmp(name, "library/", 8) == 0 ? 8 : 0;
    snprintf(alias, sizeof alias, "%.191s", name);
    char *tag = strrchr(alias, '/');
    if (tag != NULL) {
        *tag = ':';
    }
    note_model(scan, path, alias, blob.bytes, blob.mtime_ns);
    return true;
}

static void scan_ollama_store(struct scan *scan, const char *folder)
{
    char path[HOST_PATH_MAX];
    scan->origin = "ollama";
    snprintf(scan->root, sizeof scan->root, "%s", folder);
    if (snprintf(path, sizeof path, "%s/manifests", folder) < (int)sizeof path) {
        host_walk(path, DEPTH_MAX, visit_manifest, scan);
    }
}

static void scan_ollama(struct scan *scan)
{
    char path[HOST_PATH_MAX];
    const char *models = host_path_variable("OLLAMA_MODELS");
    if (models != NULL) {
        scan_ollama_store(scan, models);
        return;
    }
    if (host_home_path(".ollama/models", path, sizeof path)) {
        scan_ollama_store(scan, path);
    }
    scan_ollama_store(scan, "/usr/share/ollama/.ollama/models");
}

/* ---- the others ------------------------------------------------------------------------------------- */

static void scan_lmstudio(struct scan *scan)
{
    char path[HOST_PATH_MAX];
    if (host_home_path(".lmstudio/models", path, sizeof path)) {
        scan_folder(scan, path, "lmstudio");
    }
    if (host_home_path(".cache/lm-studio/models", path, sizeof path)) {
        scan_folder(scan, path, "lmstudio");
    }
}

static void scan_llama(struct scan *scan)
{
    char path[HOST_PATH_MAX];
    const char *own = host_path_variable("LLAMA_CACHE");
    const char *cache = host_path_variable("XDG_CACHE_HOME");
    if (own != NULL) {
        scan_folder(scan, own, "llama.cpp");
    } else if (cache != NULL && snprintf(path, sizeof path, "%s/llama.cpp", cache) < (int)sizeof path) {
        scan_folder(scan, path, "llama.cpp");
    } else if (host_home_path(".cache/llama.cpp", path, sizeof path)) {
        scan_folder(scan, path, "llama.cpp");
    }
}

/* ---- all of it -------------------------------------------------------------------------------------- */

struct folder_row {
    char path[HOST_PATH_MAX];
};
static const struct store_column folder_columns[] = {{"path", STORE_TEXT, 0, HOST_PATH_MAX}};
static const struct store_table folder_table = {"folder", folder_columns, 1, sizeof(struct folder_row)};

enum { FOLDERS_MAX = 64 };
struct folders {
    char paths[FOLDERS_MAX][HOST_PATH_MAX];
    uint32_t count;
};

static bool take_folder(void *user, const void *row)
{
    struct folders *folders = user;
    snprintf(folders->paths[folders->count++], HOST_PATH_MAX, "%s", ((const struct folder_row *)row)->path);
    return folders->count < FOLDERS_MAX;
}

static bool count_row(void *user, const void *row)
{
    (void)row;
    ++*(uint32_t *)user;
    return true;
}

bool models_scan(struct store *store, bool again, struct models_scan *out)
{
    static struct scan scan; /* two rows; verbs scan once at a time */
    static struct folders folders;
    struct folder_row row;
    memset(&scan, 0, sizeof scan);
    folders.count = 0;
    scan.store = store;
    scan.again = again;
    scan.now = (int64_t)host_now_ns(); /* a name for this scan */
    if (!store_each(store, &folder_table, "ORDER BY path", NULL, &row, take_folder, &folders) ||
        !store_do(store, "BEGIN IMMEDIATE", NULL)) {
        return false;
    }
    scan_huggingface(&scan);
    scan_lmstudio(&scan);
    scan_llama(&scan);
    scan_ollama(&scan);
    for (uint32_t i = 0; i < folders.count; i++) {
        scan_folder(&scan, folders.paths[i], "folder");
    }
    char now[32];
    snprintf(now, sizeof now, "%" PRId64, scan.now);
    const char *const texts[2] = {now, NULL};
    bool done = !scan.failed && store_each(store, &model_table, "WHERE seen <> CAST(?1 AS INTEGER)", texts, &scan.row,
                                           count_row, &scan.counts.gone);
    done = done && store_do(store, "DELETE FROM model WHERE seen <> CAST(?1 AS INTEGER)", texts);
    if (!done || !store_do(store, "COMMIT", NULL)) {
        store_do(store, "ROLLBACK", NULL);
        return false;
    }
    *out = scan.counts;
    return true;
}
