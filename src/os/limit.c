/* SPDX-License-Identifier: MIT
 *
 * The automatic memory budget: min over MemAvailable and every memory cgroup level that this process is charged to.
 *
 * Sources: proc(5), cgroups(7), the kernel's admin-guide/cgroup-v1/memory and admin-guide/cgroup-v2. A level leaves
 * limit - (usage - page cache on its LRU lists). Levels run from the process's group up to the mount point; v1 adds
 * hierarchical_memory_limit of memory.stat, which also knows the parents that a container cannot see. What a kernel
 * does not offer (no v2 root limit, no memory controller, an unreadable parent) sets no limit; a file that is there but
 * holds nonsense is an error that names it, because a guess could get the process killed. */
#include "os/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"

enum { PATH_MAX_BYTES = 1024, LINE_MAX_BYTES = 2048 };

/* Memory limits from here up mean none: v1 says 2^63 - 1 rounded down to pages. */
static const uint64_t no_limit_bytes = 1ull << 62;

/* ---- small text files, line by line, no heap ----------------------------------------------------------- */

struct lines {
    int fd;
    size_t start, end;
    bool eof, cut; /* cut: skip the rest of a line longer than the buffer */
    int error;
    char buffer[LINE_MAX_BYTES];
};

/* False with lines->error = 0 when the file is absent or may not be read. */
static bool lines_open(struct lines *lines, const char *path)
{
    lines->start = lines->end = 0;
    lines->eof = lines->cut = false;
    lines->error = 0;
    lines->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (lines->fd < 0) {
        bool absent = errno == ENOENT || errno == EACCES || errno == EPERM || errno == ENOTDIR;
        lines->error = absent ? 0 : errno;
    }
    return lines->fd >= 0;
}

static void lines_close(struct lines *lines)
{
    close(lines->fd);
}

static bool lines_fill(struct lines *lines)
{
    memmove(lines->buffer, lines->buffer + lines->start, lines->end - lines->start);
    lines->end -= lines->start;
    lines->start = 0;
    ssize_t got;
    do {
        got = read(lines->fd, lines->buffer + lines->end, sizeof lines->buffer - 1 - lines->end);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        /* ENODEV: the group was removed while we looked. */
        lines->error = got < 0 && errno != ENODEV ? errno : 0;
        lines->eof = true;
        return false;
    }
    lines->end += (size_t)got;
    return true;
}

/* Next line without its newline, NUL-terminated, borrowed until the next call; NULL at the end. Embedded NULs end the
 * line early. Lines longer than the buffer are cut. */
static char *lines_next(struct lines *lines)
{
    for (;;) {
        char *line = lines->buffer + lines->start;
        char *newline = memchr(line, '\n', lines->end - lines->start);
        if (newline != NULL) {
            *newline = '\0';
            lines->start = (size_t)(newline - lines->buffer) + 1;
            if (!lines->cut) {
                return line;
            }
            lines->cut = false;
        } else if (lines->start == 0 && lines->end == sizeof lines->buffer - 1) {
            lines->buffer[lines->end] = '\0';
            lines->start = lines->end;
            if (!lines->cut) {
                lines->cut = true;
                return lines->buffer;
            }
        } else if (lines->eof || !lines_fill(lines)) {
            if (lines->start == lines->end || lines->cut) {
                return NULL;
            }
            line = lines->buffer + lines->start;
            lines->buffer[lines->end] = '\0';
            lines->start = lines->end;
            return line;
        }
    }
}

static bool path_join(char out[PATH_MAX_BYTES], const char *a, const char *b, const char *c)
{
    int n = snprintf(out, PATH_MAX_BYTES, "%s%s%s", a, b, c);
    return n >= 0 && n < PATH_MAX_BYTES;
}

static berth_status fail_long(berth_error *err, const char *path)
{
    error_set(err, BERTH_ERR_LIMIT, "a cgroup path has over %d bytes; give the budget as a number",
              (int)PATH_MAX_BYTES);
    error_at_path(err, path);
    return BERTH_ERR_LIMIT;
}

static berth_status fail(berth_error *err, berth_status status, const char *path, const char *message, const char *got)
{
    error_set(err, status, "%s: got \"%.60s\"", message, got);
    error_at_path(err, path);
    return status;
}

static berth_status fail_errno(berth_error *err, const char *path, int code)
{
    error_set(err, BERTH_ERR_IO, "cannot read: %s", strerror(code));
    error_at_path(err, path);
    return BERTH_ERR_IO;
}

/* Decimal digits at *text; advances it. Fails on none and on more than 64 bits. */
static bool parse_u64(const char **text, uint64_t *out)
{
    const char *p = *text;
    uint64_t value = 0;
    if (*p < '0' || *p > '9') {
        return false;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        if (u64_mul_overflows(value, 10, &value) || u64_add_overflows(value, (uint64_t)(*p - '0'), &value)) {
            return false;
        }
    }
    *text = p;
    *out = value;
    return true;
}

/* One number, or "max" (= UINT64_MAX). An absent file leaves *out alone and says so. */
static berth_status read_number(struct lines *lines, const char *path, uint64_t *out, bool *present, berth_error *err)
{
    *present = false;
    if (!lines_open(lines, path)) {
        return lines->error == 0 ? BERTH_OK : fail_errno(err, path, lines->error);
    }
    const char *line = lines_next(lines);
    berth_status status = BERTH_OK;
    if (line == NULL && lines->error != 0) {
        status = fail_errno(err, path, lines->error);
    } else if (line != NULL && strcmp(line, "max") == 0) {
        *out = UINT64_MAX;
        *present = true;
    } else if (line != NULL) {
        const char *text = line;
        uint64_t value;
        if (parse_u64(&text, &value) && *text == '\0') {
            *out = value;
            *present = true;
        } else {
            status = fail(err, BERTH_ERR_FORMAT, path, "wanted a number of bytes or \"max\"", line);
        }
    }
    lines_close(lines);
    return status;
}

struct key {
    const char *name;
    uint64_t value;
    bool present;
};

/* Lines "name value" or "name: value kB". Names not asked for are skipped unread. */
static berth_status read_keys(struct lines *lines, const char *path, struct key *keys, size_t count, uint64_t unit,
                              bool *present, berth_error *err)
{
    *present = false;
    if (!lines_open(lines, path)) {
        return lines->error == 0 ? BERTH_OK : fail_errno(err, path, lines->error);
    }
    *present = true;
    berth_status status = BERTH_OK;
    for (const char *line; status == BERTH_OK && (line = lines_next(lines)) != NULL;) {
        size_t name_bytes = strcspn(line, ": ");
        for (size_t i = 0; i < count; i++) {
            if (strlen(keys[i].name) != name_bytes || memcmp(keys[i].name, line, name_bytes) != 0) {
                continue;
            }
            const char *text = line + name_bytes;
            text += strspn(text, ": \t");
            uint64_t value;
            if (!parse_u64(&text, &value) || (*text != '\0' && *text != ' ') ||
                u64_mul_overflows(value, unit, &value)) {
                status = fail(err, BERTH_ERR_FORMAT, path, "wanted a name and a number", line);
                break;
            }
            keys[i].value = value;
            keys[i].present = true;
        }
    }
    if (status == BERTH_OK && lines->error != 0) {
        status = fail_errno(err, path, lines->error);
    }
    lines_close(lines);
    return status;
}

/* ---- the walk ------------------------------------------------------------------------------------------- */

struct walk {
    const char *root;
    struct os_memory_limit *out;
    os_memory_level_fn *fn; /* NULL: nobody listens */
    void *user;
    berth_error *err;
    struct lines lines; /* one open file at a time, except mountinfo */
    char path[PATH_MAX_BYTES];
};

static void consider(struct walk *walk, uint64_t limit, uint64_t available, const char *name)
{
    if (walk->fn != NULL) {
        walk->fn(walk->user, name, limit, available);
    }
    if (available >= walk->out->available_bytes) {
        return;
    }
    walk->out->available_bytes = available;
    size_t bytes = strlen(name);
    size_t cap = sizeof walk->out->binding - 1;
    memcpy(walk->out->binding, bytes > cap ? name + (bytes - cap) : name, (bytes > cap ? cap : bytes) + 1);
}

static berth_status walk_meminfo(struct walk *walk)
{
    struct key keys[] = {{.name = "MemAvailable"}, {.name = "MemFree"}, {.name = "Buffers"}, {.name = "Cached"}};
    bool present;
    if (!path_join(walk->path, walk->root, "/proc/meminfo", "")) {
        return error_set(walk->err, BERTH_ERR_ARGUMENT, "root path too long");
    }
    TRY(read_keys(&walk->lines, walk->path, keys, sizeof keys / sizeof keys[0], 1024, &present, walk->err));
    if (present && keys[0].present) {
        consider(walk, keys[0].value, keys[0].value, "MemAvailable");
        return BERTH_OK;
    }
    if (!present || !keys[1].present) {
        error_set(walk->err, BERTH_ERR_IO, "no MemAvailable line; give the budget as a number");
        error_at_path(walk->err, walk->path);
        return BERTH_ERR_IO;
    }
    /* Before Linux 3.14. Cached includes shared memory, which is not free; halving it errs on the safe side. */
    uint64_t sum;
    if (u64_add_overflows(keys[1].value, keys[2].value, &sum) || u64_add_overflows(sum, keys[3].value / 2, &sum)) {
        return fail(walk->err, BERTH_ERR_FORMAT, walk->path, "wanted sizes under 16 EiB", "more");
    }
    consider(walk, sum, sum, "MemFree");
    return BERTH_OK;
}

struct level {
    uint64_t limit;
    const char *limit_file; /* relative to the group */
    uint64_t usage;
    uint64_t reclaimable;
};

static void level_limit(struct level *level, bool present, uint64_t value, const char *file)
{
    if (present && value < no_limit_bytes && value < level->limit) {
        level->limit = value;
        level->limit_file = file;
    }
}

static berth_status level_number(struct walk *walk, const char *group, const char *file, uint64_t *value, bool *present)
{
    if (!path_join(walk->path, walk->root, group, file)) {
        return fail_long(walk->err, group);
    }
    return read_number(&walk->lines, walk->path, value, present, walk->err);
}

static berth_status level_v1(struct walk *walk, const char *group, struct level *level)
{
    uint64_t value = 0;
    bool present;
    TRY(level_number(walk, group, "/memory.limit_in_bytes", &value, &present));
    level_limit(level, present, value, "/memory.limit_in_bytes");
    TRY(level_number(walk, group, "/memory.usage_in_bytes", &level->usage, &present));
    struct key keys[] = {
        {.name = "hierarchical_memory_limit"}, {.name = "total_inactive_file"}, {.name = "total_active_file"}};
    if (!path_join(walk->path, walk->root, group, "/memory.stat")) {
        return fail_long(walk->err, group);
    }
    TRY(read_keys(&walk->lines, walk->path, keys, sizeof keys / sizeof keys[0], 1, &present, walk->err));
    level_limit(level, keys[0].present, keys[0].value, "/memory.stat");
    if (u64_add_overflows(keys[1].value, keys[2].value, &level->reclaimable)) {
        level->reclaimable = UINT64_MAX; /* clamped to the usage */
    }
    return BERTH_OK;
}

static berth_status level_v2(struct walk *walk, const char *group, struct level *level)
{
    uint64_t value = 0;
    bool present;
    TRY(level_number(walk, group, "/memory.max", &value, &present));
    level_limit(level, present, value, "/memory.max");
    TRY(level_number(walk, group, "/memory.high", &value, &present));
    level_limit(level, present, value, "/memory.high");
    TRY(level_number(walk, group, "/memory.current", &level->usage, &present));
    struct key keys[] = {{.name = "inactive_file"}, {.name = "active_file"}};
    if (!path_join(walk->path, walk->root, group, "/memory.stat")) {
        return fail_long(walk->err, group);
    }
    TRY(read_keys(&walk->lines, walk->path, keys, sizeof keys / sizeof keys[0], 1, &present, walk->err));
    if (u64_add_overflows(keys[0].value, keys[1].value, &level->reclaimable)) {
        level->reclaimable = UINT64_MAX;
    }
    return BERTH_OK;
}

static berth_status walk_level(struct walk *walk, const char *group, bool v2)
{
    struct level level = {.limit = UINT64_MAX};
    TRY(v2 ? level_v2(walk, group, &level) : level_v1(walk, group, &level));
    if (level.limit == UINT64_MAX) {
        return BERTH_OK;
    }
    uint64_t held = level.usage > level.reclaimable ? level.usage - level.reclaimable : 0;
    char name[PATH_MAX_BYTES];
    if (!path_join(name, group, level.limit_file, "")) {
        return fail_long(walk->err, group);
    }
    consider(walk, level.limit, level.limit > held ? level.limit - held : 0, name);
    return BERTH_OK;
}

/* From `group` (under `mount`) up to the mount point. */
static berth_status walk_up(struct walk *walk, char *group, size_t mount_bytes, bool v2)
{
    for (;;) {
        TRY(walk_level(walk, group, v2));
        size_t bytes = strlen(group);
        if (bytes <= mount_bytes) {
            return BERTH_OK;
        }
        while (bytes > mount_bytes && group[bytes - 1] != '/') {
            bytes--;
        }
        while (bytes > mount_bytes && group[bytes - 1] == '/') {
            bytes--;
        }
        group[bytes] = '\0';
        if (!v2) { /* without use_hierarchy (before Linux 5.11) a v1 parent's limit does not cover its children */
            uint64_t hierarchy = 1;
            bool present;
            TRY(level_number(walk, group, "/memory.use_hierarchy", &hierarchy, &present));
            if (present && hierarchy == 0) {
                return BERTH_OK;
            }
        }
    }
}

/* mountinfo writes space, tab, newline and backslash as \ooo. In place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; to++) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' && from[3] >= '0' &&
            from[3] <= '7') {
            *to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = '\0';
}

static char *next_field(char **text)
{
    char *field = *text;
    if (field == NULL) {
        return NULL;
    }
    char *space = strchr(field, ' ');
    *text = space == NULL ? NULL : space + 1;
    if (space != NULL) {
        *space = '\0';
    }
    return field;
}

static bool list_has(const char *list, const char *word)
{
    size_t bytes = strlen(word);
    for (const char *p = list; p != NULL; p = strchr(p, ',') == NULL ? NULL : strchr(p, ',') + 1) {
        if (strncmp(p, word, bytes) == 0 && (p[bytes] == ',' || p[bytes] == '\0')) {
            return true;
        }
    }
    return false;
}

struct mount {
    char *root, *point;
    bool v2;
};

/* "36 35 98:0 /root /point options [tags] - type source options"; false: not a mount of a memory cgroup tree. */
static bool parse_mount(char *line, struct mount *out)
{
    char *tail = strstr(line, " - ");
    if (tail == NULL) {
        return false;
    }
    *tail = '\0';
    tail += 3;
    char *type = next_field(&tail);
    char *source = next_field(&tail);
    char *options = next_field(&tail);
    if (source == NULL || options == NULL) {
        return false;
    }
    out->v2 = strcmp(type, "cgroup2") == 0;
    if (!out->v2 && (strcmp(type, "cgroup") != 0 || !list_has(options, "memory"))) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        next_field(&line);
    }
    out->root = next_field(&line);
    out->point = next_field(&line);
    if (out->root == NULL || out->point == NULL || out->point[0] != '/') {
        return false;
    }
    unescape(out->root);
    unescape(out->point);
    return true;
}

static bool has_dotdot(const char *path)
{
    for (const char *p = strstr(path, "/.."); p != NULL; p = strstr(p + 1, "/..")) {
        if (p[3] == '/' || p[3] == '\0') {
            return true;
        }
    }
    return false;
}

/* The group's directory as seen through a mount. A path outside the mounted part (another namespace, "/..") leaves the
 * mount point itself: the nearest level that can be seen. */
static bool group_path(char out[PATH_MAX_BYTES], const struct mount *mount, const char *group)
{
    const char *below = "";
    size_t root_bytes = strlen(mount->root);
    while (root_bytes > 0 && mount->root[root_bytes - 1] == '/') {
        root_bytes--;
    }
    if (strncmp(group, mount->root, root_bytes) == 0 && (group[root_bytes] == '/' || group[root_bytes] == '\0')) {
        below = group + root_bytes;
    }
    if (strcmp(below, "/") == 0 || has_dotdot(below)) {
        below = "";
    }
    return path_join(out, strcmp(mount->point, "/") == 0 ? "" : mount->point, below, "");
}

/* Path of this process in the v1 memory tree or in the v2 tree; empty when it has none. */
static berth_status find_group(struct walk *walk, bool v2, char out[PATH_MAX_BYTES])
{
    out[0] = '\0';
    if (!path_join(walk->path, walk->root, "/proc/self/cgroup", "")) {
        return error_set(walk->err, BERTH_ERR_ARGUMENT, "root path too long");
    }
    if (!lines_open(&walk->lines, walk->path)) {
        return walk->lines.error == 0 ? BERTH_OK : fail_errno(walk->err, walk->path, walk->lines.error);
    }
    for (char *line; (line = lines_next(&walk->lines)) != NULL;) {
        char *controllers = strchr(line, ':');
        char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (path == NULL || path[1] != '/') {
            continue;
        }
        *path++ = '\0';
        controllers++;
        if (v2 ? controllers[0] == '\0' : list_has(controllers, "memory")) {
            if (walk->lines.cut || !path_join(out, path, "", "")) {
                lines_close(&walk->lines);
                return fail_long(walk->err, walk->path);
            }
            break;
        }
    }
    int code = walk->lines.error;
    lines_close(&walk->lines);
    return code == 0 ? BERTH_OK : fail_errno(walk->err, walk->path, code);
}

static berth_status walk_mounts(struct walk *walk)
{
    char group_v1[PATH_MAX_BYTES];
    char group_v2[PATH_MAX_BYTES];
    TRY(find_group(walk, false, group_v1));
    TRY(find_group(walk, true, group_v2));
    if (!path_join(walk->path, walk->root, "/proc/self/mountinfo", "")) {
        return error_set(walk->err, BERTH_ERR_ARGUMENT, "root path too long");
    }
    struct lines mounts;
    if (!lines_open(&mounts, walk->path)) {
        return mounts.error == 0 ? BERTH_OK : fail_errno(walk->err, walk->path, mounts.error);
    }
    berth_status status = BERTH_OK;
    for (char *line; status == BERTH_OK && (line = lines_next(&mounts)) != NULL;) {
        struct mount mount;
        if (!parse_mount(line, &mount)) {
            continue;
        }
        const char *group = mount.v2 ? group_v2 : group_v1;
        char path[PATH_MAX_BYTES];
        if (group[0] == '\0') {
            continue;
        }
        if (!group_path(path, &mount, group)) {
            status = fail_long(walk->err, walk->path);
            break;
        }
        size_t point_bytes = strcmp(mount.point, "/") == 0 ? 0 : strlen(mount.point);
        status = walk_up(walk, path, point_bytes, mount.v2);
    }
    lines_close(&mounts);
    return status;
}

berth_status os_memory_limit(const char *root, struct os_memory_limit *out, berth_error *err)
{
    return os_memory_levels(root, NULL, NULL, out, err);
}

berth_status os_memory_levels(const char *root, os_memory_level_fn *fn, void *user, struct os_memory_limit *out,
                              berth_error *err)
{
    struct os_memory_limit result = {.available_bytes = UINT64_MAX};
    struct walk walk = {.root = root == NULL ? "" : root, .out = &result, .fn = fn, .user = user, .err = err};
    TRY(walk_meminfo(&walk));
    TRY(walk_mounts(&walk));
    *out = result;
    return BERTH_OK;
}
